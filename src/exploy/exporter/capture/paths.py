"""Names for tensors: the attribute path that leads to a piece of memory."""

import re
from dataclasses import dataclass

import numpy as np
import torch

from exploy.exporter.capture.geometry import Geometry
from exploy.exporter.capture.object_graph import walk
from exploy.exporter.core.components import Connection, Group, Input, Output
from exploy.exporter.core.context_manager import ContextManager

_BOOKKEEPING = (ContextManager, Input, Output, Group, Connection)


@dataclass(frozen=True)
class _Named:
    path: str
    start: int
    stop: int
    shape: tuple[int, ...]


class PathIndex:
    """Every tensor and array that can be reached from some roots, findable by where it lies in memory."""

    def __init__(self, roots: dict[str, object]):
        self._named = [
            named for found in walk(roots, skip=_BOOKKEEPING) if (named := _named(found.path, found.value)) is not None
        ]

    def find(self, geometry: Geometry) -> str | None:
        """The path to this tensor, else to the smallest one that contains it, else None."""
        around = [named for named in self._named if named.start <= geometry.start and geometry.stop <= named.stop]
        if not around or geometry.start == geometry.stop:
            return None
        best = min(around, key=lambda named: (named.stop - named.start, named.shape != geometry.shape))
        return best.path


def identifier_from_path(path: str) -> str:
    """Turn `env._env._terms['leg']._scale` into `env_terms_leg_scale`, fit for a part of a port's name."""
    parts = [part.strip("_") for part in re.split(r"[^a-zA-Z0-9_]+", path)]
    words = [part for part in parts if part]
    return "_".join(word for position, word in enumerate(words) if position == 0 or word != words[position - 1])


def _named(path: str, value: object) -> _Named | None:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.device.type == "meta":
            return None
        geometry = Geometry.of(value)
        return _Named(path, geometry.start, geometry.stop, geometry.shape)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return _Named(path, *_byte_bounds(value), value.shape)
    return None


def _byte_bounds(array: np.ndarray) -> tuple[int, int]:
    """Addresses of the first byte of an array and of the one after its last; strides may be negative."""
    address = array.__array_interface__["data"][0]
    spans = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True) if size]
    first, last = sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans)
    return address + first, address + last + (array.itemsize if array.size else 0)
