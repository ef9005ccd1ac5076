"""Loops over the elements of values, with as few dimensions as their strides allow."""

from collections.abc import Callable, Sequence

import numpy as np

from exploy.codegen.values import Shape, View

Element = Callable[[View, Sequence[str]], str]  # writes the element of a view at some indices

_INDEX_NAMES = "ijklmnpq"


class Nest:
    """Loops over all elements of a shape: over some dimensions outside, over the others inside of those.

    Args:
        shape: The shape.
        inner: The dimensions of the inner loops.
        views: What is read and written; each has this shape.
        element: Writes the element of a view.
    """

    def __init__(self, shape: Shape, inner: Sequence[int], views: Sequence[View], element: Element):
        outside = [axis for axis in range(len(shape)) if axis not in inner]
        outer_sizes, outer_strides = _collapsed(shape, outside, views)
        inner_sizes, inner_strides = _collapsed(shape, inner, views)
        self._sizes = [*outer_sizes, *inner_sizes]
        self._outer_rank = len(outer_sizes)
        pairs = zip(views, outer_strides, inner_strides, strict=True)
        self._strides = {id(view): [*outer, *inside] for view, outer, inside in pairs}
        self._element = element

    @property
    def inner_index(self) -> str:
        """The index of the inner loop, if that is one dimension; 0 if it has one element."""
        names = self._names(self._outer_rank, len(self._sizes))
        assert len(names) <= 1, "one inner dimension is one loop"
        return names[0] if names else "0"

    def read(self, view: View) -> str:
        """The element of a view, which may be written to as well."""
        flat = View(view.buffer, self._sizes, self._strides[id(view)], view.offset)
        return self._element(flat, self._names(0, len(self._sizes)))

    def outer(self, lines: Sequence[str]) -> list[str]:
        """The outer loops around some lines."""
        return self._around(0, self._outer_rank, lines)

    def block(self, lines: Sequence[str]) -> list[str]:
        """The outer loops around lines that declare variables, or a block where there are none."""
        return self.outer(lines) if self._outer_rank else ["{", *(f"  {line}" for line in lines), "}"]

    def inner(self, lines: Sequence[str]) -> list[str]:
        """The inner loops around some lines."""
        return self._around(self._outer_rank, len(self._sizes), lines)

    def _around(self, start: int, stop: int, lines: Sequence[str]) -> list[str]:
        text = list(lines)
        for name, size in reversed(list(zip(self._names(start, stop), self._sizes[start:stop], strict=True))):
            text = [f"for (int32_t {name} = 0; {name} < {size}; {name}++) {{", *(f"  {line}" for line in text), "}"]
        return text

    def _names(self, start: int, stop: int) -> str:
        return _INDEX_NAMES[start:stop]


def _collapsed(shape: Shape, axes: Sequence[int], views: Sequence[View]) -> tuple[Shape, list[Shape]]:
    """Leave out dimensions of size 1, and join those that all views step through as through one."""
    groups: list[list[int]] = []
    for axis in axes:
        if shape[axis] == 1:
            continue
        if groups and all(view.strides[groups[-1][-1]] == view.strides[axis] * shape[axis] for view in views):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    sizes = tuple(int(np.prod([shape[axis] for axis in group])) for group in groups)
    return sizes, [tuple(view.strides[group[-1]] for group in groups) for view in views]
