"""The parts of a skrl space. Each part becomes one port."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.policy.policy import BATCH, PolicyInput
from exploy.trainers.common.libraries import library


@dataclass(frozen=True)
class Leaf:
    """A part of a space: its port, and the dtype that skrl converts it to."""

    port: PolicyInput
    dtype: torch.dtype
    width: int


def leaves(space: Any, name: str, *, inside: bool = False) -> Iterator[Leaf]:
    """The parts of a space, in the order in which skrl flattens them."""
    if isinstance(space, int | tuple | list):
        shape = (space,) if isinstance(space, int) else tuple(space)
        yield _leaf(name, shape, torch.float32)
        return
    spaces = library("gymnasium.spaces", "skrl")
    if isinstance(space, spaces.Dict):
        for key in sorted(space.keys()):
            yield from leaves(space[key], f"{name}_{key}" if inside else str(key), inside=True)
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space):
            yield from leaves(part, f"{name}_{index}", inside=True)
    elif isinstance(space, spaces.Box):
        yield _leaf(name, space.shape, _port_dtype(space))
    elif isinstance(space, spaces.Discrete):
        yield _leaf(name, (1,), torch.int64, torch.int32, int(space.n))
    elif isinstance(space, spaces.MultiDiscrete):
        yield _leaf(name, space.shape, torch.int64, torch.int32, int(space.nvec.min()))
    else:
        raise PolicyError(
            f"The space of {name!r} must be a Box, Discrete, MultiDiscrete, Dict or Tuple of gymnasium, or a size, "
            f"got {space!r}."
        )


def _leaf(
    name: str,
    shape: tuple[int, ...],
    port_dtype: torch.dtype,
    dtype: torch.dtype = torch.float32,
    high: int = 256,
) -> Leaf:
    port = PolicyInput(name, (BATCH, *map(int, shape)), port_dtype, high)
    return Leaf(port, dtype, prod(map(int, shape)))


def _port_dtype(box: Any) -> torch.dtype:
    """The dtype of the port: uint8 for images, float32 for all other values."""
    return torch.uint8 if str(box.dtype) == "uint8" else torch.float32
