"""TorchRL policies: any tensordict modules, with the transforms of their environment.

The reference is the policy itself, called on a tensordict under `set_exploration_type`, after the transforms as the
environment applies them. Ports have the names of the keys. Nested keys are joined with `_`: `("agents", "observation")`
becomes `agents_observation`. Hidden states are memories, and `is_init` is an input that the controller sets after a
reset. Environment transforms become part of the file. Exporting them needs neither torchvision nor an environment.
"""

from exploy.trainers.torchrl.environment import TorchRlEnvironment
from exploy.trainers.torchrl.export import actor_from_policy, export_policy

__all__ = ["TorchRlEnvironment", "actor_from_policy", "export_policy"]
