"""What operators read and give: elements in memory, constants, and elements that are computed where they are used."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from exploy.codegen.c_types import literal

Shape = tuple[int, ...]


@dataclass(eq=False)
class Buffer:
    """A piece of memory that emitted code knows by a name.

    Args:
        name: Its name in C.
        dtype: Type of its elements.
        size: Number of elements.
        uses: The operations that read or write it, by number.
    """

    name: str
    dtype: np.dtype
    size: int
    uses: list[int] = field(default_factory=list)


class Value(ABC):
    """A tensor.

    Args:
        shape: Its shape, without open sizes.
        dtype: Type of its elements.
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype | type | str):
        self.shape: Shape = tuple(int(size) for size in shape)
        self.dtype = np.dtype(dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @abstractmethod
    def broadcast(self, shape: Shape) -> "Value":
        """The same elements, repeated to a larger shape."""

    @abstractmethod
    def with_ones(self, shape: Shape) -> "Value":
        """The same elements in a shape that differs by dimensions of size 1 only."""

    @abstractmethod
    def views(self) -> Iterator["View"]:
        """The views that it is computed from."""

    @abstractmethod
    def cost(self) -> int:
        """How many operations computing an element takes."""


class View(Value):
    """Elements in memory, at an offset and with strides, both counted in elements."""

    def __init__(self, buffer: Buffer, shape: Sequence[int], strides: Sequence[int] | None = None, offset: int = 0):
        super().__init__(shape, buffer.dtype)
        self.buffer = buffer
        self.strides: Shape = row_major(self.shape) if strides is None else tuple(strides)
        self.offset = offset

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie next to each other, in order."""
        wanted = row_major(self.shape)
        return all(size == 1 or a == b for size, a, b in zip(self.shape, self.strides, wanted, strict=True))

    def broadcast(self, shape: Shape) -> "View":
        """The same elements, with strides of 0 where they repeat."""
        lead = len(shape) - self.rank
        strides = [0] * lead + [0 if size == 1 else step for size, step in zip(self.shape, self.strides, strict=True)]
        return View(self.buffer, shape, strides, self.offset)

    def with_ones(self, shape: Shape) -> "View":
        """The same elements, with dimensions of size 1 added or removed."""
        steps = iter([step for step, size in zip(self.strides, self.shape, strict=True) if size != 1])
        return View(self.buffer, shape, [0 if size == 1 else next(steps) for size in shape], self.offset)

    def views(self) -> Iterator["View"]:
        """Itself."""
        yield self

    def cost(self) -> int:
        """Nothing."""
        return 0


class Constant(Value):
    """Numbers that are known. One number is written as such; several become a table if they are read."""

    def __init__(self, array: np.ndarray, hint: str = "constant"):
        super().__init__(array.shape, array.dtype)
        self.array = array
        self.hint = hint

    @property
    def only(self) -> str | None:
        """The number as C, if all elements are the same, bit by bit."""
        flat = np.ascontiguousarray(self.array).reshape(-1)
        if flat.size == 0:
            return None
        same = flat.size == 1 or len(set(flat.view(f"V{flat.itemsize}").tolist())) == 1
        return literal(flat[0], self.dtype) if same else None

    def broadcast(self, shape: Shape) -> "Constant":
        """The same numbers, repeated."""
        return Constant(np.broadcast_to(self.array, shape), self.hint)

    def with_ones(self, shape: Shape) -> "Constant":
        """The same numbers in another shape."""
        return Constant(self.array.reshape(shape), self.hint)

    def views(self) -> Iterator[View]:
        """None: tables are made when they are read."""
        return iter(())

    def cost(self) -> int:
        """Nothing."""
        return 0


class Computed(Value):
    """Elements that are computed where they are used.

    Args:
        shape: Its shape.
        dtype: Type of its elements.
        form: The expression, with {0}, {1} … for elements of the operands. Each of them is safe to read once.
        operands: Values of the same shape.
        hint: The name that it gets in memory.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: np.dtype | type | str,
        form: str,
        operands: Sequence[Value],
        hint: str = "",
    ):
        super().__init__(shape, dtype)
        self.hint = hint
        self.form = form
        self.operands = tuple(operands)

    def broadcast(self, shape: Shape) -> "Computed":
        """The same expression of repeated operands."""
        return self._of([item.broadcast(shape) for item in self.operands], shape)

    def with_ones(self, shape: Shape) -> "Computed":
        """The same expression of operands in another shape."""
        return self._of([item.with_ones(shape) for item in self.operands], shape)

    def named(self, hint: str) -> "Computed":
        """The same, with a name for it in memory."""
        return Computed(self.shape, self.dtype, self.form, self.operands, hint)

    def views(self) -> Iterator[View]:
        """Those of all operands."""
        for item in self.operands:
            yield from item.views()

    def cost(self) -> int:
        """One operation, and those of the operands."""
        return 1 + sum(item.cost() for item in self.operands)

    def _of(self, operands: Sequence[Value], shape: Shape) -> "Computed":
        return Computed(shape, self.dtype, self.form, operands, self.hint)


def row_major(shape: Sequence[int]) -> Shape:
    """The strides of elements that lie next to each other, in order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def broadcast_shape(*values: Value) -> Shape:
    """The shape that values have together."""
    return tuple(int(size) for size in np.broadcast_shapes(*(value.shape for value in values)))
