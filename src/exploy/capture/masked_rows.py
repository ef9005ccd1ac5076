"""Rows that a mask selects, kept in their full number.

The size of `x[mask]` depends on values if the mask does, and a file has fixed shapes. While recording, such a selection
is represented by all rows together with the mask. An operation that treats each row by itself gives the same for the
selected rows, whether it gets all rows or only these. So it runs on all rows, and a write back through the same mask
becomes `torch.where`.
"""

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import torch
from torch.overrides import handle_torch_function


class RowOperations(Protocol):
    """What runs the operations on masked rows."""

    def call(self, func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a torch function whose arguments contain masked rows."""

    def refuse(self, what: str) -> NoReturn:
        """Raise the error for a use of masked rows that a file cannot express."""

    def has_rows(self, rows: "MaskedRows") -> bool:
        """Whether there is at least one selected row, if Python may ask."""


class MaskedRows:
    """The rows of a tensor that a mask selects; stands for a tensor in the recorded code.

    Not a tensor, so that no compiled code of torch can take the rows that are not selected for selected ones.

    Args:
        full: All rows, in memory of their own.
        mask: Flags of the rows, 1-d; its length is the size of `full` along `axis`.
        axis: The axis of the rows.
        operations: What runs the operations.
    """

    def __init__(self, full: torch.Tensor, mask: torch.Tensor, axis: int, operations: RowOperations):
        self._exploy_full = full
        self._exploy_mask = mask
        self._exploy_axis = axis
        self._exploy_operations = operations

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch function outside of the guard, such as one that the guard itself calls."""
        rows = next(item for item in _flat((args, kwargs)) if isinstance(item, MaskedRows))
        return rows._exploy_operations.call(func, getattr(func, "__name__", ""), args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_exploy") or not hasattr(torch.Tensor, name):
            raise AttributeError(f"A tensor has no attribute {name!r}.")
        attribute = getattr(torch.Tensor, name)
        if callable(attribute):
            return lambda *args, **kwargs: handle_torch_function(attribute, (self,), self, *args, **kwargs)
        return handle_torch_function(attribute.__get__, (self,), self)

    def __len__(self) -> int:
        return 1 if self._exploy_operations.has_rows(self) else 0

    def __iter__(self) -> Any:
        self._exploy_operations.refuse("a loop runs over the elements that a mask selects")

    def __repr__(self) -> str:
        self._exploy_operations.refuse("the elements that a mask selects are made a text")

    def __bool__(self) -> bool:
        self._exploy_operations.refuse("the elements that a mask selects decide about a branch")

    __hash__ = object.__hash__


class RowCount:
    """The number of rows that a mask selects: the first size of `x[mask]`.

    It may be compared with 0 in the test of an `if`, and be given to `view()` and the like of the selected elements.
    """

    def __init__(self, rows: MaskedRows):
        self._exploy_rows = rows

    def __bool__(self) -> bool:
        return self._exploy_rows._exploy_operations.has_rows(self._exploy_rows)

    def _compared(self, name: str, other: object) -> bool:
        return bool(getattr(int, name)(int(bool(self)), other))

    def __eq__(self, other: object) -> bool:
        return self._compared("__eq__", other)

    def __ne__(self, other: object) -> bool:
        return self._compared("__ne__", other)

    def __gt__(self, other: object) -> bool:
        return self._compared("__gt__", other)

    def __ge__(self, other: object) -> bool:
        return self._compared("__ge__", other)

    def __lt__(self, other: object) -> bool:
        return self._compared("__lt__", other)

    def __le__(self, other: object) -> bool:
        return self._compared("__le__", other)

    __hash__ = object.__hash__

    def _refuse(self, *_: object) -> NoReturn:
        self._exploy_rows._exploy_operations.refuse("the number of elements that a mask selects is used")

    __index__ = __int__ = __float__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __neg__ = __pow__ = _refuse
    __repr__ = __str__ = _refuse


_OPERATORS = [
    "__add__",
    "__radd__",
    "__iadd__",
    "__sub__",
    "__rsub__",
    "__isub__",
    "__mul__",
    "__rmul__",
    "__imul__",
    "__truediv__",
    "__rtruediv__",
    "__itruediv__",
    "__floordiv__",
    "__rfloordiv__",
    "__ifloordiv__",
    "__mod__",
    "__rmod__",
    "__imod__",
    "__pow__",
    "__rpow__",
    "__ipow__",
    "__matmul__",
    "__rmatmul__",
    "__neg__",
    "__pos__",
    "__abs__",
    "__invert__",
    "__and__",
    "__rand__",
    "__iand__",
    "__or__",
    "__ror__",
    "__ior__",
    "__xor__",
    "__rxor__",
    "__ixor__",
    "__lshift__",
    "__rshift__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__getitem__",
    "__setitem__",
    "__float__",
    "__int__",
    "__index__",
    "__complex__",
    "__contains__",
    "__array__",
    "__format__",
    "__dlpack__",
    "__deepcopy__",
]


def _operator(name: str) -> Callable[..., Any]:
    def operator(self: MaskedRows, *args: Any, **kwargs: Any) -> Any:
        return handle_torch_function(getattr(torch.Tensor, name), (self,), self, *args, **kwargs)

    return operator


for _name in _OPERATORS:
    setattr(MaskedRows, _name, _operator(_name))


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [item for part in value for item in _flat(part)]
    return [value]
