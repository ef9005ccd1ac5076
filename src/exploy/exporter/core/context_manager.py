"""The context manager and its components."""

from exploy.environment.components import Connection, Constant, Group, Input, Memory, Output
from exploy.environment.context_manager import ContextManager

__all__ = ["Connection", "Constant", "ContextManager", "Group", "Input", "Memory", "Output"]
