"""Validation of exported files against their environment."""

from exploy.verify.evaluator import evaluate

__all__ = ["evaluate"]
