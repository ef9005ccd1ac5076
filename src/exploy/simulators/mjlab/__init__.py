"""mjlab: exports of its tasks. The library is not imported before it is used."""

from exploy.simulators.mjlab.environment import MjlabEnvironment

__all__ = ["MjlabEnvironment"]
