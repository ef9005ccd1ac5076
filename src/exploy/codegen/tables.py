"""The numbers that a file brings along: weights and other constants, each stored once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from exploy.codegen.names import Names
from exploy.codegen.values import Buffer, Constant, View

_LARGEST_IN_SOURCE = 64  # elements of a table that stands in the source of the steps


@dataclass(frozen=True)
class Table:
    """Constant numbers under a name."""

    name: str
    array: np.ndarray

    @property
    def is_small(self) -> bool:
        """Whether it stands in the source of the steps, where a reader sees it."""
        return self.array.size <= _LARGEST_IN_SOURCE


class Tables:
    """All tables of a file; the steps share them.

    Args:
        prefix: The first part of the names of large tables, which are in a file of their own.
        names: The names of everything that has file scope.
    """

    def __init__(self, prefix: str, names: Names):
        self._prefix = prefix
        self._names = names
        self._by_contents: dict[tuple[str, bytes], tuple[Table, Buffer]] = {}

    def add(self, array: np.ndarray, hint: str) -> Buffer:
        """Store numbers in row-major order, unless the same ones are stored already."""
        flat = np.ascontiguousarray(array).reshape(-1)
        key = (flat.dtype.str, flat.tobytes())
        if key not in self._by_contents:
            wanted = hint if flat.size <= _LARGEST_IN_SOURCE else f"{self._prefix}_{hint}"
            table = Table(self._names.give(wanted), flat)
            self._by_contents[key] = (table, Buffer(table.name, flat.dtype, flat.size))
        return self._by_contents[key][1]

    def view(self, constant: Constant) -> View:
        """A constant as elements in memory."""
        return View(self.add(constant.array, constant.hint), constant.shape)

    def __iter__(self) -> Iterator[Table]:
        """Those that a step reads: of what nobody reads, compilers would say so."""
        return iter([table for table, buffer in self._by_contents.values() if buffer.uses])

    @property
    def names(self) -> list[str]:
        """The names of all tables, also of those that nobody reads."""
        return [table.name for table, _ in self._by_contents.values()]
