"""Validation of exported files against the environment that they were made from."""

from exploy.verify.evaluator import evaluate

__all__ = ["evaluate"]
