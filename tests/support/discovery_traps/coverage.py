"""Compares what was registered with what a trap names, by memory."""

import ast
from collections.abc import Collection, Sequence

import numpy as np
import torch

from exploy.environment.components import Input, Memory
from exploy.environment.exportable_environment import ExportableEnvironment
from tests.support.discovery_traps.trap import Trap, evaluate


def forbidden(trap: Trap, env: ExportableEnvironment, actor: torch.nn.Module) -> list[str]:
    """The expressions of `never_inputs` that were registered as Inputs, or parts of them."""
    inputs = _inputs(env)
    values = [item.fetch() for item in inputs]  # kept, so that no new tensor gets their addresses
    return [
        expression
        for expression in sorted(trap.never_inputs)
        if _is_called(expression, inputs, env, actor)
        or addresses(evaluate(expression, env, actor)) & _addresses_of(values)
    ]


def missing_inputs(trap: Trap, env: ExportableEnvironment, actor: torch.nn.Module) -> list[str]:
    """The expressions of `inputs` that the registered Inputs do not contain."""
    return _missing(trap.inputs, _inputs(env), env, actor)


def missing_memories(trap: Trap, env: ExportableEnvironment, actor: torch.nn.Module) -> list[str]:
    """The expressions of `memories` that are not registered as Memories, without those that a capture carries."""
    return _missing(trap.memories - trap.carried, env.context_manager().get_memory_components(), env, actor)


def _missing(
    expected: Collection[str], items: Sequence[Input], env: ExportableEnvironment, actor: torch.nn.Module
) -> list[str]:
    values = [item.fetch() for item in items]
    registered = _addresses_of(values)
    return [item for item in sorted(expected) if not addresses(evaluate(item, env, actor)) <= registered]


def _inputs(env: ExportableEnvironment) -> list[Input]:
    return [item for item in env.context_manager().get_input_components() if not isinstance(item, Memory)]


def _is_called(expression: str, inputs: list[Input], env: ExportableEnvironment, actor: torch.nn.Module) -> bool:
    """Whether an Input is the call of the property or method that the expression names."""
    node = ast.parse(expression, mode="eval").body
    node = node.func if isinstance(node, ast.Call) else node
    if not isinstance(node, ast.Attribute):
        return False
    owner = evaluate(ast.unparse(node.value), env, actor)
    calls = [item.called_value for item in inputs if item.called_value is not None]
    return any(call.owner is owner and call.name == node.attr for call in calls)


def _addresses_of(tensors: list[torch.Tensor]) -> set[int]:
    return set().union(*map(addresses, tensors))


def addresses(tensor: torch.Tensor) -> set[int]:
    """The address of each element."""
    places = np.array(tensor.data_ptr(), dtype=np.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = places[..., None] + np.arange(size, dtype=np.int64) * (stride * tensor.itemsize)
    return set(places.reshape(-1).tolist())
