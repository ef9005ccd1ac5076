"""Policies and environments of TorchRL."""

from exploy.trainers.torchrl import TorchRlEnvironment, actor_from_policy, export_policy

__all__ = ["TorchRlEnvironment", "actor_from_policy", "export_policy"]
