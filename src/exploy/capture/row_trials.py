"""Tries whether a torch function treats each row of its arguments by itself.

The function is run on all rows and on some of them, with random values. It treats rows by itself if the result for some
rows is these rows of the result for all. No list of functions is needed, and each call is tried with its own arguments.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils._pytree import tree_flatten, tree_iter

from exploy.capture.masked_rows import MaskedRows, RowCount

_TOLERANCE = 1e-4


class _Failed(Exception):
    """The function does not accept these values, although it may accept others."""


def row_axes(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> list[int] | None:
    """The axes of the rows in the tensors that a function returns; None if it does not treat each row by itself.

    Nothing is recorded, and the arguments are not changed.

    Args:
        func: A torch function.
        args: Its arguments, with masked rows among them.
        kwargs: Its named arguments.
    """
    given, spec = tree_flatten((args, kwargs))
    with disable_proxy_modes_tracing(), torch._C.DisableTorchFunction(), torch.random.fork_rng(devices=[]):
        for values in (_random, _random_floats, _live):
            try:
                return _Trial(func, spec, given, values).axes()
            except _Failed:
                continue
    return None


class _Trial:
    """A function with arguments in which masked rows have other values."""

    def __init__(self, func: Callable[..., Any], spec: Any, given: list[Any], values: Callable[..., torch.Tensor]):
        generator = torch.Generator().manual_seed(0)
        self._func = func
        self._spec = spec
        self._given = given
        self._values = [values(item._exploy_full, generator) if type(item) is MaskedRows else None for item in given]
        first = next(item for item in given if type(item) in (MaskedRows, RowCount))
        rows = first._exploy_rows if isinstance(first, RowCount) else first
        self._count = rows._exploy_mask.numel()

    def axes(self) -> list[int] | None:
        every = torch.arange(self._count)
        full = self._run(every)
        if full is None:
            raise _Failed
        candidates = [set(range(item.dim())) for item in full]
        tried = 0
        for chosen in _choices(self._count):
            some = self._run(chosen)
            if some is None and len(chosen) == 0:
                continue  # fails for no rows, and so does the environment
            if some is None or len(some) != len(full):
                return None
            tried += 1
            for axes, one, two in zip(candidates, full, some, strict=True):
                axes &= {axis for axis in axes if _are_rows(one, two, axis, chosen)}
        results = len(full) - self._arguments_at_end
        if not tried or not all(candidates):
            return None
        changed = [
            item._exploy_axis in axes for item, axes in zip(self._row_arguments(), candidates[results:], strict=True)
        ]
        return [min(axes) for axes in candidates[:results]] if all(changed) else None

    def _row_arguments(self) -> list[MaskedRows]:
        return [item for item in self._given if type(item) is MaskedRows]

    @property
    def _arguments_at_end(self) -> int:
        return len(self._row_arguments())

    def _run(self, chosen: torch.Tensor) -> list[torch.Tensor] | None:
        """The tensors of the result for some rows, then the row arguments after the call; None after an error."""
        arguments = [self._argument(item, value, chosen) for item, value in zip(self._given, self._values, strict=True)]
        kept = [item.clone() if isinstance(item, torch.Tensor) else None for item in arguments]
        args, kwargs = self._spec.unflatten(arguments)
        try:
            result = self._func(*args, **kwargs)
        except Exception:
            return None
        tensors = [item for item in tree_iter(result) if isinstance(item, torch.Tensor)]
        if not tensors and result is not None:
            return None
        rows = []
        for given, now, before in zip(self._given, arguments, kept, strict=True):
            if type(given) is MaskedRows:
                rows.append(now)
            elif before is not None and not _equal(now, before):
                return None  # writes to a tensor that is not masked
        return [*tensors, *rows]

    def _argument(self, item: Any, value: torch.Tensor | None, chosen: torch.Tensor) -> Any:
        if type(item) is RowCount:
            return len(chosen)
        if type(item) is MaskedRows:
            assert value is not None
            return value.index_select(item._exploy_axis, chosen)
        return item.clone() if isinstance(item, torch.Tensor) else item


def _choices(count: int) -> Iterator[torch.Tensor]:
    yield torch.arange(0)
    yield torch.arange(count)
    if count == 2:
        yield from (torch.tensor([0]), torch.tensor([1]))
    elif count > 2:
        yield torch.arange(count // 2 + 1)
        yield torch.tensor(sorted({*range(1, count, 2), count - 1}))


def _are_rows(full: torch.Tensor, some: torch.Tensor, axis: int, chosen: torch.Tensor) -> bool:
    expected = list(full.shape)
    expected[axis] = len(chosen)
    if some.dim() != full.dim() or list(some.shape) != expected or full.dtype != some.dtype:
        return False
    return full.shape[axis] > max([*chosen.tolist(), -1]) and _equal(full.index_select(axis, chosen), some)


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one.is_floating_point():
        return torch.allclose(one, two, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
    return torch.equal(one, two)


def _random(full: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if full.is_floating_point():
        return _random_floats(full, generator)
    high = 2 if full.dtype == torch.bool else 50
    return torch.randint(0, high, full.shape, generator=generator).to(full.dtype)


def _random_floats(full: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if full.is_floating_point():
        return torch.randn(full.shape, generator=generator).to(full.dtype)
    return full.clone()


def _live(full: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return full.clone()
