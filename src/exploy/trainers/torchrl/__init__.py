"""Policies of TorchRL: tensordict modules of any make, with the transforms of their environment around them.

The reference is the policy itself, called on a tensordict under `set_exploration_type`, behind the transforms as the
environment applies them. Ports have the names of the keys, nested ones joined with `_`: `("agents", "observation")` is
`agents_observation`. Hidden states are memories, and `is_init` is an input that the controller sets after a reset.
Environment transforms become part of the file; neither torchvision nor an environment is needed to export them.
"""

from exploy.trainers.torchrl.environment import TorchRlEnvironment
from exploy.trainers.torchrl.export import actor_from_policy, export_policy

__all__ = ["TorchRlEnvironment", "actor_from_policy", "export_policy"]
