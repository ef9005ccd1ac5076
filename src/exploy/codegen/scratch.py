"""Memory for intermediate results: one array for each type, whose elements are used again by later operations."""

from collections.abc import Mapping, Sequence

import numpy as np

from exploy.codegen.c_types import c_type
from exploy.codegen.values import Buffer

_ALIGNMENT = 16  # elements; a cache line of float32


def place(buffers: Sequence[Buffer]) -> tuple[dict[str, int], dict[np.dtype, int]]:
    """Give each buffer a place; buffers that are in use at the same time never overlap.

    Args:
        buffers: The buffers of one step, with the operations that use them.

    Returns:
        The place of each buffer in the array of its type, by name, and the length of each array.
    """
    places: dict[str, int] = {}
    lengths: dict[np.dtype, int] = {}
    placed: list[tuple[Buffer, int]] = []
    for buffer in sorted(buffers, key=lambda item: (-item.size, min(item.uses), item.name)):
        spans = sorted(
            (start, start + _rounded(other.size))
            for other, start in placed
            if other.dtype == buffer.dtype and _overlap(other, buffer)
        )
        start = _first_gap(spans, _rounded(buffer.size))
        places[buffer.name] = start
        placed.append((buffer, start))
        lengths[buffer.dtype] = max(lengths.get(buffer.dtype, 0), start + buffer.size)
    return places, lengths


def field_of(dtype: np.dtype) -> str:
    """The name of the array for a type, in the struct of scratch memory."""
    return c_type(dtype).suffix


def merged(lengths: Sequence[Mapping[np.dtype, int]]) -> dict[np.dtype, int]:
    """The lengths that are enough for several steps."""
    found: dict[np.dtype, int] = {}
    for item in lengths:
        for dtype, length in item.items():
            found[dtype] = max(found.get(dtype, 0), length)
    return dict(sorted(found.items(), key=lambda item: (-item[0].itemsize, field_of(item[0]))))


def _overlap(a: Buffer, b: Buffer) -> bool:
    return min(a.uses) <= max(b.uses) and min(b.uses) <= max(a.uses)


def _first_gap(spans: Sequence[tuple[int, int]], size: int) -> int:
    position = 0
    for start, stop in spans:
        if start - position >= size:
            return position
        position = max(position, stop)
    return position


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT if size >= _ALIGNMENT else size
