"""Policies of rsl_rl."""

from exploy.trainers.rsl_rl import actor_from_checkpoint, actor_from_model, actor_from_runner, export_policy

__all__ = ["actor_from_checkpoint", "actor_from_model", "actor_from_runner", "export_policy"]
