"""Policies of Stable-Baselines3 and sb3-contrib, including the observation processing of their VecEnv wrappers."""

from exploy.trainers.sb3.export import actor_from_checkpoint, actor_from_model, export_policy

__all__ = ["actor_from_checkpoint", "actor_from_model", "export_policy"]
