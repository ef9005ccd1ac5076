"""Isaac Lab: exports of its tasks. The library is not imported before it is used."""

from exploy.simulators.isaaclab.environment import IsaacLabEnvironment

__all__ = ["IsaacLabEnvironment"]
