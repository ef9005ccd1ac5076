"""CleanRL policies."""

from exploy.trainers.cleanrl import CleanRlPolicy, actor_from_agent, actor_from_checkpoint, export_policy

__all__ = ["CleanRlPolicy", "actor_from_agent", "actor_from_checkpoint", "export_policy"]
