"""Runs torch functions on the elements that a traced mask selects; see `masked_rows`."""

import math
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils._pytree import tree_iter, tree_map

from exploy.capture.masked_rows import MaskedRows, RowCount
from exploy.capture.recording import MASKED_BY, Recording, mutated_arguments
from exploy.capture.row_reductions import REDUCTIONS, reduced
from exploy.capture.row_trials import row_axes
from exploy.capture.same_values import SameValues

_DESCRIBE = frozenset(
    [
        "dtype",
        "device",
        "layout",
        "dim",
        "ndim",
        "ndimension",
        "is_floating_point",
        "is_complex",
        "is_signed",
        "requires_grad",
        "element_size",
    ]
)
_DIVISIONS = frozenset(
    {"div", "div_", "divide", "floor_divide", "floor_divide_", "remainder", "remainder_", "fmod", "fmod_"}
    | {"__floordiv__", "__rfloordiv__", "__ifloordiv__", "__mod__", "__rmod__", "__imod__"}
)
_OTHER_NUMBER = "one value for each element that a mask selects is written, but the values are not of that mask"
_SELECT = frozenset({"nonzero", "argwhere", "masked_select"})


class Refusals(Protocol):
    """Raises the error for code that a file cannot express, with its line."""

    def refuse(self, message: str) -> NoReturn:
        """Raise the error."""

    def has_rows(self, mask: torch.Tensor) -> bool:
        """Whether a mask has a true element, if the code asks in order to write through that mask."""

    def escapes(self, name: str) -> bool:
        """Whether a torch function moves values out of torch."""


class Rows:
    """Selects, computes and writes masked rows while recording.

    Args:
        recording: The recording under way.
        refusals: Raises errors with the line of user code.
    """

    def __init__(self, recording: Recording, refusals: Refusals):
        self._recording = recording
        self._refusals = refusals

    def concerns(self, name: str, args: Any, kwargs: dict[str, Any], items: list[Any]) -> bool:
        """Whether a call has masked rows among its arguments, or makes some of a traced mask."""
        if any(type(item) in (MaskedRows, RowCount) for item in items):
            return True
        if name in ("__getitem__", "__setitem__"):
            return isinstance(args[0], torch.Tensor) and any(self._is_mask(item) for item in _key(args[1]))
        if name == "where":
            return len(args) == 1 and not kwargs and self._is_variable(args[0])
        return name in _SELECT and any(self._is_variable(item) for item in items)

    def call(self, func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a torch function that `concerns()` masked rows.

        Raises:
            DataDependentError: If it does not treat each row by itself, or mixes the rows of two masks.
        """
        if name == "__setitem__" and not isinstance(args[0], MaskedRows):
            return self._store(*args)
        if name == "__getitem__" and not isinstance(args[0], MaskedRows):
            return self._selected(*args)
        if name in _SELECT or name == "where":
            found = self._found(name, args, kwargs)
            if found is not None:
                return found
        if name in ("numel", "size", "shape", "nelement", "__len__"):
            return self._size(name, args, kwargs)
        if name in REDUCTIONS and isinstance(args[0], MaskedRows):
            result = reduced(name, args[0], *args[1:], **kwargs)
            if result is not None:
                return result
        if self._refusals.escapes(name):
            self.refuse(f"the result of `{name.strip('_')}` depends on all elements that a mask selects")
        return self._row_by_row(func, name, args, kwargs)

    def refuse(self, what: str) -> NoReturn:
        """Raise the error for a use of masked rows that a file cannot express."""
        self._refusals.refuse(
            f"{what}. How many elements the mask selects depends on an input, which a file with fixed shapes cannot "
            "express. Compute with all elements, and choose with torch.where(mask, new, old)."
        )

    def has_rows(self, rows: MaskedRows) -> bool:
        """Whether there is at least one selected row, if the code asks in order to write through the same mask."""
        return self._refusals.has_rows(rows._exploy_mask)

    # Selecting

    def _is_variable(self, item: Any) -> bool:
        return isinstance(item, torch.Tensor) and self._recording.depends_on_arguments(item)

    def _is_mask(self, item: Any) -> bool:
        return isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8) and self._is_variable(item)

    def _rows(self, full: torch.Tensor, mask: torch.Tensor, axis: int = 0) -> MaskedRows:
        return MaskedRows(full, mask, axis, self)

    def _found(self, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """The result of `nonzero()`, `argwhere()`, `where()` and `masked_select()` of traced values."""
        given = [*args, *kwargs.values()]
        if any(isinstance(item, MaskedRows) for item in given):
            return None
        if name == "masked_select":
            source, mask = torch.broadcast_tensors(*given)
            return self._rows(source.reshape(-1).clone(), self._flags(mask))
        source = args[0] if args else kwargs["input"]
        flags = source != 0
        columns = [self._rows(column, self._flags(flags)) for column in _positions(flags)]
        if name == "where" or kwargs.get("as_tuple"):
            return tuple(columns)
        full = torch.stack([column._exploy_full for column in columns], dim=1)
        return self._rows(full, columns[0]._exploy_mask)

    def _flags(self, mask: torch.Tensor) -> torch.Tensor:
        """The mask as it is now, flat: later writes to the mask do not change what was selected."""
        return mask.reshape(-1).to(torch.bool, copy=True)

    def _selected(self, source: torch.Tensor, key: Any) -> Any:
        items = _key(key)
        if len(items) == 1 and self._is_mask(items[0]):
            mask = items[0]
            if mask.dim() == 0:
                self.refuse("a 0-d mask selects one element or none")
            shape = (mask.numel(), *source.shape[mask.dim() :])
            return self._rows(source.reshape(shape).clone(), self._flags(mask))
        return self._row_by_row(torch.Tensor.__getitem__, "__getitem__", (source, tuple(self._positions_in(items))), {})

    def _positions_in(self, items: list[Any]) -> list[Any]:
        """An indexing key in which masks are replaced by the rows of their positions."""
        found: list[Any] = []
        for item in items:
            if self._is_mask(item):
                if item.dim() == 0:
                    self.refuse("a 0-d mask selects one element or none")
                flags = self._flags(item)
                found.extend(self._rows(column, flags) for column in _positions(item))
            elif isinstance(item, MaskedRows) and item._exploy_full.dtype == torch.bool:
                self.refuse("a mask selects from what a mask has selected")
            else:
                found.append(item)
        return found

    def _size(self, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        rows: MaskedRows = args[0]
        sizes = [
            RowCount(rows) if axis == rows._exploy_axis else size for axis, size in enumerate(rows._exploy_full.shape)
        ]
        if name in ("numel", "nelement", "__len__"):
            return RowCount(rows)
        position = args[1] if len(args) > 1 else kwargs.get("dim")
        return tuple(sizes) if position is None else sizes[position]

    # Computing

    def _row_by_row(self, func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        rows = [_rows_of(item) for item in tree_iter((args, kwargs)) if type(item) in (MaskedRows, RowCount)]
        self._require_one_mask([item._exploy_mask for item in rows])
        mask = rows[0]._exploy_mask
        if name in _DESCRIBE:
            return func(rows[0]._exploy_full)
        args = self._with_divisors(name, args)
        axes = row_axes(func, args, kwargs)
        if axes is None:
            self.refuse(f"the result of `{name.strip('_')}` depends on all elements that a mask selects")
        full_args, full_kwargs = tree_map(_full, (args, kwargs))
        result = func(*full_args, **full_kwargs)
        remaining = iter(axes)
        return tree_map(
            lambda item: self._rows(item, mask, next(remaining)) if isinstance(item, torch.Tensor) else item, result
        )

    def _with_divisors(self, name: str, args: Any) -> Any:
        """The arguments of a division of integers, without the zeros that are not selected: these stop a file."""
        position = {"__rfloordiv__": 0, "__rmod__": 0}.get(name, 1) if name in _DIVISIONS else len(args)
        if position >= len(args) or type(args[position]) is not MaskedRows:
            return args
        rows: MaskedRows = args[position]
        full, mask, axis = rows._exploy_full, rows._exploy_mask, rows._exploy_axis
        if full.is_floating_point():
            return args
        flags = mask.view(-1, *[1] * (full.dim() - 1 - axis))
        filled = torch.where(flags, full, torch.ones((), dtype=full.dtype))
        return (*args[:position], self._rows(filled, mask, axis), *args[position + 1 :])

    def _require_one_mask(self, masks: list[torch.Tensor]) -> None:
        first = masks[0]
        for other in masks[1:]:
            if other is not first and not self._are_same(first, other):
                self.refuse("elements that two different masks select are combined")

    def _are_same(self, one: torch.Tensor, two: torch.Tensor) -> bool:
        recording = self._recording
        return SameValues(recording).are_same(recording.node_of(one), recording.node_of(two))

    # Writing

    def _store(self, target: torch.Tensor, key: Any, value: Any) -> None:
        items = _key(key)
        if self._is_one_mask(key):
            self._store_through(target, items[0], value)
            return
        items = self._positions_in(items)
        rows = [item for item in items if isinstance(item, MaskedRows)]
        if not rows:
            self.refuse(_OTHER_NUMBER)
        given = [value._exploy_mask] if isinstance(value, MaskedRows) else []
        self._require_one_mask([*(item._exploy_mask for item in rows), *given])
        self._store_at(target, _with_ellipsis(items, target.dim()), rows, value)

    def _store_through(self, target: torch.Tensor, mask: torch.Tensor, value: Any) -> None:
        """Write through a mask that is the only index."""
        if mask.dim() == 0:
            new = self._written(value, 0, target.dim(), target.dtype)
            new = new[0] if new.dim() > target.dim() else new
            self._write(self._flags(mask), lambda: target.copy_(torch.where(mask != 0, new, target)))
            return
        if not isinstance(value, MaskedRows):
            target[mask] = value  # replaced in the finished recording, see `masks`
            return
        flags = self._flags(mask)
        self._require_one_mask([flags, value._exploy_mask])
        trailing = target.dim() - mask.dim()
        self._require_fitting(value, 0, trailing)
        new = value._exploy_full.expand(flags.numel(), *target.shape[mask.dim() :]).reshape(target.shape)
        shaped = flags.view(*mask.shape, *[1] * trailing)
        self._write(flags, lambda: target.copy_(torch.where(shaped, new.to(target.dtype), target)))

    def _is_one_mask(self, key: Any) -> bool:
        items = _key(key)
        return len(items) == 1 and self._is_mask(items[0])

    def _store_at(self, target: torch.Tensor, items: list[Any], rows: list[MaskedRows], value: Any) -> None:
        """Write at the positions of selected rows: at all positions, with the old values where not selected."""
        first = next(position for position, item in enumerate(items) if isinstance(item, MaskedRows))
        others = [*items[:first], *items[first + len(rows) :]]
        is_plain = all(item is None or (isinstance(item, int | slice) and item is not True) for item in others)
        if not is_plain or any(row._exploy_full.dim() != 1 for row in rows):
            self.refuse("a write combines a mask with other tensors as indices")
        self._require_distinct(rows)
        key = tuple(item._exploy_full if isinstance(item, MaskedRows) else item for item in items)
        current = target[key]
        axis = sum(not isinstance(item, int) for item in items[:first])
        trailing = current.dim() - axis - 1
        new = self._written(value, axis, trailing, target.dtype)
        flags = rows[0]._exploy_mask
        chosen = torch.where(flags.view(-1, *[1] * trailing), new, current)
        self._write(flags, lambda: target.__setitem__(key, chosen))

    def _written(self, value: Any, axis: int, trailing: int, dtype: torch.dtype) -> torch.Tensor:
        if isinstance(value, MaskedRows):
            self._require_fitting(value, axis, trailing)
            return value._exploy_full.to(dtype)
        if not isinstance(value, torch.Tensor):
            return torch.full((), value, dtype=dtype)
        if value.dim() > trailing and value.shape[-trailing - 1] != 1:
            self.refuse(_OTHER_NUMBER)
        return value.to(dtype)

    def _require_fitting(self, value: MaskedRows, axis: int, trailing: int) -> None:
        """Check that the rows of a value are written to the rows of the target, not broadcast along another axis."""
        full = value._exploy_full
        if full.dim() - 1 - value._exploy_axis != trailing or value._exploy_axis > axis:
            self.refuse("the selected elements are written to a place with other dimensions")

    def _require_distinct(self, rows: list[MaskedRows]) -> None:
        """Check that no two rows are written to one place: one of them could be selected and the other not."""
        if any(self._recording.depends_on_arguments(item._exploy_full) for item in rows):
            self.refuse("selected elements are written to positions that are computed from inputs")
        with disable_proxy_modes_tracing(), torch._C.DisableTorchFunction():
            places = torch.stack([item._exploy_full for item in rows])
            if places.unique(dim=1).shape[1] != places.shape[1] or bool((places < 0).any()):
                self.refuse("several elements that a mask selects are written to one position")

    def _write(self, flags: torch.Tensor, write: Callable[[], object]) -> None:
        """Write, and note under which mask."""
        last = next(iter(reversed(self._recording.graph.nodes)))
        write()
        node = last.next
        while node.op != "root":
            if mutated_arguments(node):
                node.meta[MASKED_BY] = self._recording.node_of(flags)
            node = node.next


def _positions(mask: torch.Tensor) -> list[torch.Tensor]:
    """For each axis of a tensor, the positions of all its elements along that axis."""
    every = torch.arange(mask.numel(), device=mask.device)
    sizes = list(mask.shape)
    return [every // math.prod(sizes[axis + 1 :]) % size for axis, size in enumerate(sizes)]


def _key(key: Any) -> list[Any]:
    return list(key) if isinstance(key, tuple) else [key]


def _with_ellipsis(items: list[Any], dims: int) -> list[Any]:
    """The key with `...` written as slices."""
    used = sum(1 for item in items if item is not None and item is not ...)
    return [part for item in items for part in ([slice(None)] * (dims - used) if item is ... else [item])]


def _rows_of(item: MaskedRows | RowCount) -> MaskedRows:
    return item._exploy_rows if isinstance(item, RowCount) else item


def _full(item: Any) -> Any:
    if type(item) is RowCount:
        rows = item._exploy_rows
        return rows._exploy_full.shape[rows._exploy_axis]
    return item._exploy_full if type(item) is MaskedRows else item
