"""Registers by hand what a trap says, right or wrong."""

from collections.abc import Mapping

import torch

from exploy.environment.components import Input, Memory, Output, TensorCallback
from exploy.environment.exportable_environment import ExportableEnvironment
from tests.support.discovery_traps.trap import Role, Trap, evaluate


def found_roles(trap: Trap) -> dict[str, Role]:
    """What watching can find."""
    return {**dict.fromkeys(sorted(trap.inputs), "input"), **dict.fromkeys(sorted(trap.memories), "memory")}


def right_roles(trap: Trap) -> dict[str, Role]:
    """What is right, with the answers of a user."""
    return {**found_roles(trap), **trap.answers}


def naive_roles(trap: Trap) -> dict[str, Role]:
    """The mistake of a trap."""
    return {**found_roles(trap), **(trap.naive or {})}


def register(trap: Trap, env: ExportableEnvironment, actor: torch.nn.Module, roles: Mapping[str, Role]) -> None:
    """Register the Outputs of a trap, and expressions with their roles."""
    manager = env.context_manager()
    for index, (expression, role) in enumerate(roles.items()):
        callback = _callback(expression, env, actor)
        if role == "input":
            manager.add_component(Input(f"input_{index}", callback))
        elif role == "memory":
            manager.add_component(Memory(f"memory_{index}", callback))
        elif role == "constant":
            manager.add_constant(f"constant_{index}", callback)
    for name, expression in trap.outputs.items():
        manager.add_component(Output(name, _callback(expression, env, actor)))


def register_rightly(trap: Trap, env: ExportableEnvironment, actor: torch.nn.Module) -> None:
    """Register all that is right."""
    register(trap, env, actor, right_roles(trap))
    if trap.remedy is not None:
        trap.remedy(env, actor)


def _callback(expression: str, env: ExportableEnvironment, actor: torch.nn.Module) -> TensorCallback:
    return lambda: evaluate(expression, env, actor)
