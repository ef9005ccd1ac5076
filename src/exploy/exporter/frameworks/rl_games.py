"""Policies of rl_games."""

from exploy.trainers.rl_games import actor_from_agent, actor_from_checkpoint, actor_from_player, export_policy

__all__ = ["actor_from_agent", "actor_from_checkpoint", "actor_from_player", "export_policy"]
