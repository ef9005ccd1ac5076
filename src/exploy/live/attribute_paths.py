"""Names for tensors: the attribute path of a memory location."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from exploy.environment.components import Connection, Constant, Group, Input, Output
from exploy.environment.context_manager import ContextManager
from exploy.live.geometry import Geometry, has_memory
from exploy.live.object_graph import can_be_followed, is_a, walk

BOOKKEEPING = (ContextManager, Constant, Input, Output, Group, Connection)


@dataclass(frozen=True)
class NamedMemory:
    """A tensor or array, and its attribute path."""

    attr_path: str
    address: int
    shape: tuple[int, ...]
    byte_strides: tuple[int, ...]
    itemsize: int
    value: torch.Tensor | np.ndarray = field(compare=False, repr=False)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Addresses of the first byte and of the byte after the last; strides may be negative."""
        spans = [(size - 1) * stride for size, stride in zip(self.shape, self.byte_strides, strict=True)]
        if 0 in self.shape:
            return self.address, self.address
        first, last = sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans)
        return self.address + first, self.address + last + self.itemsize

    def positions_of(self, elements: np.ndarray) -> np.ndarray | None:
        """Positions in the flattened tensor of elements given by address; None if they are the whole tensor."""
        addresses = np.array(self.address, dtype=np.int64)
        for size, stride in zip(self.shape, self.byte_strides, strict=True):
            addresses = addresses[..., None] + np.arange(size, dtype=np.int64) * stride
        held = np.isin(addresses.reshape(-1), elements)
        return None if held.all() else np.flatnonzero(held)


class PathIndex:
    """All tensors and arrays that can be reached from the roots, searchable by memory location.

    If several roots lead to the same tensor, the first root is used.
    """

    def __init__(self, roots: dict[str, object]):
        found = [item for name, root in roots.items() for item in walk({name: root}, skip=BOOKKEEPING)]
        self._named = [named for item in found if (named := _named(item.attr_path, item.value)) is not None]

    def find(self, geometry: Geometry) -> NamedMemory | None:
        """The named tensor at this location, else the smallest named tensor that contains it, else None."""
        start, stop = geometry.start, geometry.stop
        around = [named for named in self._named if named.bounds[0] <= start and stop <= named.bounds[1]]
        if not around or start == stop:
            return None
        usable = [named for named in around if can_be_followed(named.attr_path)]
        return min(
            usable,
            key=lambda named: (named.bounds[1] - named.bounds[0], named.shape != geometry.shape),
            default=None,
        )


def index_paths(roots: dict[str, object]) -> PathIndex:
    """Index the tensors of live objects by memory; safe to call while recording."""
    with torch._C.DisableTorchFunction():
        return PathIndex(roots)


def identifier_from_attr_path(attr_path: str) -> str:
    """Convert `env._env._terms['leg']._scale` to `env_terms_leg_scale`, which can be part of a port name."""
    parts = [part.strip("_") for part in re.split(r"[^a-zA-Z0-9_]+", attr_path)]
    words = [part for part in parts if part]
    return "_".join(word for position, word in enumerate(words) if position == 0 or word != words[position - 1])


def _named(attr_path: str, value: Any) -> NamedMemory | None:
    if is_a(value, torch.Tensor):
        if not has_memory(value):
            return None
        strides = tuple(stride * value.itemsize for stride in value.stride())
        return NamedMemory(attr_path, value.data_ptr(), tuple(value.shape), strides, value.itemsize, value)
    if is_a(value, np.ndarray) and value.dtype != object:
        address = value.__array_interface__["data"][0]
        return NamedMemory(attr_path, address, value.shape, value.strides, value.itemsize, value)
    return None
