"""What memories start from, and the states of a policy that they become."""

from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.policy.policy import PolicyState
from exploy.trainers.torchrl.chain import Chain
from exploy.trainers.torchrl.keys import Key, port_name, shown
from exploy.trainers.torchrl.layout import Layout
from exploy.trainers.torchrl.stages import MemoryKeys


def known_starts(chain: Chain, layout: Layout) -> dict[Key, torch.Tensor]:
    """What memories start from, for all robots of the example; without those whose shape the first step shows.

    Raises:
        PolicyError: If the example does not have one whose shape is known from nowhere else.
    """
    starts = {}
    for memory in chain.memories:
        given = layout.get(memory.read)
        if given is None and memory.start is None and not memory.is_optional:
            layout.tensor(memory.read, chain.readers[memory.read])
        start = _start(memory, given, layout)
        if start is not None:
            starts[memory.read] = start
    return starts


def _start(memory: MemoryKeys, given: torch.Tensor | None, layout: Layout) -> torch.Tensor | None:
    """What a memory starts from for all robots of the example; None if the first step shows its shape."""
    start = memory.start
    if given is not None:
        return (
            torch.zeros_like(given) if start is None else _expanded(start.to(given.dtype), tuple(given.shape), memory)
        )
    if start is None or (memory.is_optional and start.ndim == 0):
        return None
    dims = layout.batch_dims
    is_whole = dims > 0 and tuple(start.shape[:dims]) == layout.batch_size
    return start if is_whole or not dims else start.expand(*layout.batch_size, *start.shape)


def _expanded(start: torch.Tensor, shape: tuple[int, ...], memory: MemoryKeys) -> torch.Tensor:
    try:
        return start.expand(shape)
    except RuntimeError as error:
        raise PolicyError(
            f"The memory {shown(memory.read)} has shape {shape} in the example, but starts from values of shape "
            f"{tuple(start.shape)}."
        ) from error


def state_of(memory: MemoryKeys, start: torch.Tensor | None, result: Any, layout: Layout) -> PolicyState:
    """A memory as a state of the policy.

    Args:
        memory: The memory.
        start: What it starts from, if that is known before the first step.
        result: What the first step gave.
        layout: What the example looks like.

    Raises:
        PolicyError: If its next value has another shape or type.
    """
    following = result.get(memory.written)
    if start is None:
        start = torch.zeros_like(following) if memory.start is None else memory.start.to(following.dtype)
        start = start.expand(following.shape)
    if start.shape != following.shape or start.dtype != following.dtype:
        raise PolicyError(
            f"The memory {shown(memory.read)} is read with shape {tuple(start.shape)} and type {start.dtype}, but its "
            f"next value {shown(memory.written)} has shape {tuple(following.shape)} and type {following.dtype}."
        )
    one = start[:1] if layout.batch_dims else start
    return PolicyState(port_name(memory.read), layout.shape(following), following.dtype, one.contiguous().clone())
