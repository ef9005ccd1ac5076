"""skrl policies (PyTorch only), from agents, runners, models and checkpoints.

The reference is the evaluation of skrl's trainers: `mean_actions` of the agent's `act()` if present, otherwise the
actions. Categorical heads, which skrl samples from even in evaluation, return their most likely action. A copy of the
model itself is called, so custom models and models shared between roles work. A policy that was trained with mixed
precision is exported in single precision.
"""

from exploy.trainers.skrl.export import (
    actor_from_agent,
    actor_from_checkpoint,
    actor_from_model,
    actor_from_runner,
    export_policy,
)

__all__ = ["actor_from_agent", "actor_from_checkpoint", "actor_from_model", "actor_from_runner", "export_policy"]
