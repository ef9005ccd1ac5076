"""Components that an environment registers."""

from exploy.environment.components import Connection, Constant, Group, Input, Memory, Output

__all__ = ["Connection", "Constant", "Group", "Input", "Memory", "Output"]
