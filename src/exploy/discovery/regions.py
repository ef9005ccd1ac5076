"""Regions of a tensor: the slices that cover the elements which matter."""

from dataclasses import dataclass

import numpy as np

_MOST_REGIONS = 8


@dataclass(frozen=True)
class Region:
    """A slice along each axis of a tensor; `ignored` is the number of its elements that have no influence."""

    bounds: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]
    ignored: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the tensor."""
        return all(bound == (0, size) for bound, size in zip(self.bounds, self.shape, strict=True))

    @property
    def code(self) -> str:
        """The slices as they stand behind a tensor; nothing if it is the whole tensor."""
        if self.is_whole:
            return ""
        parts = [
            ":" if (start, stop) == (0, size) else f"{start}:{stop}"
            for (start, stop), size in zip(self.bounds, self.shape, strict=True)
        ]
        while parts[-1] == ":":
            parts.pop()
        return f"[{', '.join(parts)}]"

    @property
    def suffix(self) -> str:
        """What tells it from other regions of the tensor in a name."""
        numbers = [
            str(start) for (start, stop), size in zip(self.bounds, self.shape, strict=True) if stop - start < size
        ]
        return "_".join(numbers)


def regions(shape: tuple[int, ...], flags: np.ndarray) -> list[Region]:
    """The regions that cover some elements: one box, or several if they lie apart along one axis.

    A box may have elements in between that have no influence. If there would be many boxes, it is one.

    Args:
        shape: The shape of the tensor.
        flags: Flags for the elements of the flattened tensor.
    """
    held = flags.reshape(shape)
    whole = _box(held)
    if not whole.ignored:
        return [whole]
    axis = next(axis for axis in range(held.ndim) if _runs(held, axis) != [whole.bounds[axis]] or axis == held.ndim - 1)
    runs = _runs(held, axis)
    if len(runs) > _MOST_REGIONS:
        return [whole]
    found = []
    for start, stop in runs:
        part = np.zeros_like(held)
        index = (*(slice(None) for _ in range(axis)), slice(start, stop))
        part[index] = held[index]
        found.append(_box(part))
    return found


def _runs(held: np.ndarray, axis: int) -> list[tuple[int, int]]:
    others = tuple(item for item in range(held.ndim) if item != axis)
    used = np.concatenate([[0], held.any(axis=others).astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(used)).reshape(-1, 2)
    return [(int(start), int(stop)) for start, stop in edges]


def _box(held: np.ndarray) -> Region:
    if not held.ndim:
        return Region((), ())
    positions = np.argwhere(held)
    low, high = positions.min(0), positions.max(0) + 1
    bounds = tuple((int(start), int(stop)) for start, stop in zip(low, high, strict=True))
    return Region(bounds, held.shape, int(np.prod(high - low)) - int(held.sum()))
