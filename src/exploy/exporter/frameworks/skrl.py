"""Policies of skrl."""

from exploy.trainers.skrl import (
    actor_from_agent,
    actor_from_checkpoint,
    actor_from_model,
    actor_from_runner,
    export_policy,
)

__all__ = ["actor_from_agent", "actor_from_checkpoint", "actor_from_model", "actor_from_runner", "export_policy"]
