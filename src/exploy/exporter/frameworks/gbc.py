"""Policies of GBC."""

from exploy.trainers.gbc import GbcPolicy, actor_from_checkpoint, actor_from_model, export_policy

__all__ = ["GbcPolicy", "actor_from_checkpoint", "actor_from_model", "export_policy"]
