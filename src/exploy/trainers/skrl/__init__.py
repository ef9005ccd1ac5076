"""Policies of skrl (its PyTorch part): agents, runners, models and checkpoints.

The reference is the evaluation of skrl's trainers: `mean_actions` of the agent's `act()` where there are some, and the
actions otherwise. Heads that skrl samples from even there (categorical ones) give their most likely action. The model
itself is called, on a copy, so that custom models and models shared between roles work. A policy that was trained
with mixed precision is exported in single precision.
"""

from exploy.trainers.skrl.export import (
    actor_from_agent,
    actor_from_checkpoint,
    actor_from_model,
    actor_from_runner,
    export_policy,
)

__all__ = ["actor_from_agent", "actor_from_checkpoint", "actor_from_model", "actor_from_runner", "export_policy"]
