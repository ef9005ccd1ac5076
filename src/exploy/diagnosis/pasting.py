"""Executes suggested lines as a user would who pastes them."""

import torch

from exploy.environment.actor import add_actor_memory
from exploy.environment.components import Connection, Input, Memory, Output
from exploy.environment.context_manager import ContextManager
from exploy.environment.exportable_environment import ExportableEnvironment

_COMPONENTS = {kind.__name__: kind for kind in (Input, Memory, Output, Connection)}
_STARTS = tuple(f"{name}(" for name in _COMPONENTS)


def is_code(suggestion: str) -> bool:
    """Whether a suggestion has a line that is not a comment."""
    return any(not line.startswith("#") for line in suggestion.splitlines())


def paste(suggestion: str, env: ExportableEnvironment, actor: torch.nn.Module) -> list[Input | Output]:
    """Execute the lines of a suggestion and add its components; one takes the place of a component with its name.

    Args:
        suggestion: The lines. Only `env`, `actor`, torch and the names of exploy are defined in them.
        env: The environment.
        actor: The actor of the user, not a wrapper.

    Returns:
        The Inputs, Outputs and Memories that the lines have added.

    Raises:
        Exception: Any error that a line raises.
    """
    scope = {"torch": torch, "env": env, "actor": actor, "add_actor_memory": add_actor_memory, **_COMPONENTS}
    manager = env.context_manager()
    before = {item.id for item in _components(manager)}
    for line in suggestion.splitlines():
        if line.startswith(_STARTS):
            component = eval(line, scope)
            manager.remove_component(component.name)
            manager.add_component(component)
        else:
            exec(line, scope)
    return [item for item in _components(manager) if item.id not in before]


def _components(manager: ContextManager) -> list[Input | Output]:
    """All Inputs, Outputs and Memories, each once."""
    found: list[Input | Output] = [*manager.get_input_components(), *manager.get_output_components()]
    return list({item.id: item for item in found}.values())
