"""Environments of TorchRL."""

from exploy.trainers.torchrl import TorchRlEnvironment

__all__ = ["TorchRlEnvironment"]
