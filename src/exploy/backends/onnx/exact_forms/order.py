"""Extremes, sorting and scans: onnxruntime ignores NaN where torch returns it, and ONNX lacks some of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

_SMALL = (torch.int8, torch.int16, torch.uint8)


# -- extremes ---------------------------------------------------------------------------------------------------------


def amax(x: torch.Tensor, dims: Sequence[int] = (), keepdim: bool = False) -> Any:
    """The largest value; NaN if there is one."""
    return _extreme(torch.amax, x, dims, keepdim)


def amin(x: torch.Tensor, dims: Sequence[int] = (), keepdim: bool = False) -> Any:
    """The smallest value; NaN if there is one."""
    return _extreme(torch.amin, x, dims, keepdim)


def max_all(x: torch.Tensor) -> Any:
    """The largest value of all."""
    return _extreme(torch.amax, x, (), False)


def min_all(x: torch.Tensor) -> Any:
    """The smallest value of all."""
    return _extreme(torch.amin, x, (), False)


def _extreme(extreme: Callable[..., torch.Tensor], x: torch.Tensor, dims: Sequence[int], keepdim: bool) -> Any:
    along = list(dims) or list(range(x.dim()))
    if x.dtype is torch.bool:
        return extreme(x.to(torch.int32), along, keepdim).to(torch.bool)
    if x.dtype in _SMALL:
        return extreme(x.to(torch.int32), along, keepdim).to(x.dtype)
    if not x.is_floating_point():
        return NotImplemented if dims else extreme(x, along, keepdim)
    if not along:
        return x.clone()
    is_nan = x.isnan().to(torch.float32)
    has_nan = torch.amax(is_nan, along, keepdim) > 0
    return torch.where(has_nan, math.nan, extreme(x, along, keepdim)).to(x.dtype)


def argmax(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The place of the largest value; of the first NaN if there is one."""
    return _arg_extreme(torch.argmax, x, dim, keepdim)


def argmin(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The place of the smallest value; of the first NaN if there is one."""
    return _arg_extreme(torch.argmin, x, dim, keepdim)


def _arg_extreme(search: Callable[..., torch.Tensor], x: torch.Tensor, dim: int | None, keepdim: bool) -> Any:
    if x.dtype in _SMALL:
        return search(x.to(torch.int32), dim, keepdim)
    if not x.is_floating_point():
        return NotImplemented
    if dim is None:
        x, dim = x.reshape(-1), 0
    is_nan = x.isnan().to(torch.float32)
    return torch.where(
        torch.amax(is_nan, [dim], keepdim) > 0, torch.argmax(is_nan, dim, keepdim), search(x, dim, keepdim)
    )


def max_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """The largest values and their places."""
    return amax(x, [dim], keepdim), argmax(x, dim, keepdim)


def min_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """The smallest values and their places."""
    return amin(x, [dim], keepdim), argmin(x, dim, keepdim)


def _of_floats(form: Callable[..., Any]) -> Callable[..., Any]:
    def of_floats(x: torch.Tensor, *args: Any, **options: Any) -> Any:
        return form(x, *args, **options) if x.is_floating_point() or x.dtype in _SMALL else NotImplemented

    return of_floats


# -- sorting ----------------------------------------------------------------------------------------------------------


def sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    """Sort values, NaN as the largest one. Equal values stay in their order, as onnxruntime does it."""
    if x.dtype is torch.bool:
        values, places = _sorted(x.to(torch.int32), dim, descending)
        return values.to(torch.bool), places
    return _sorted(x, dim, descending) if x.is_floating_point() else NotImplemented


def sort_stable(x: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """The same, asked for."""
    found = sort(x, dim, descending)
    return torch.sort(x, dim, descending) if found is NotImplemented else found


def _sorted(x: torch.Tensor, dim: int, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if not x.is_floating_point():
        found = aten.sort.default(x, dim, descending)
        return found[0], found[1]
    is_nan = x.isnan()
    numbers = torch.where(is_nan, -math.inf if descending else math.inf, x).to(x.dtype)
    places = aten.sort.default(numbers, dim, descending)[1]
    nan_first = aten.sort.default(is_nan.to(torch.int32).gather(dim, places), dim, descending)[1]
    places = places.gather(dim, nan_first)
    return x.gather(dim, places), places


def topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The first of sorted values."""
    if not x.is_floating_point():
        return NotImplemented
    values, places = _sorted(x, dim, largest)
    return values.narrow(dim, 0, k), places.narrow(dim, 0, k)


def kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """One of sorted values."""
    values, places = sort_stable(x, dim=dim)
    return _picked(values, dim, k - 1, keepdim), _picked(places, dim, k - 1, keepdim)


def median_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """The lower one of the values in the middle; NaN if there is one."""
    values, places = kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if not x.is_floating_point():
        return values, places
    is_nan = x.isnan().to(torch.float32)
    has_nan = torch.amax(is_nan, [dim], keepdim) > 0
    return (
        torch.where(has_nan, math.nan, values).to(x.dtype),
        torch.where(has_nan, torch.argmax(is_nan, dim, keepdim), places),
    )


def median_all(x: torch.Tensor) -> Any:
    """The median of all values."""
    return median_dim(x.reshape(-1), 0)[0]


def _picked(x: torch.Tensor, dim: int, index: int, keepdim: bool) -> torch.Tensor:
    found = x.narrow(dim, index, 1)
    return found if keepdim else found.squeeze(dim)


def searchsorted(
    edges: torch.Tensor,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> Any:
    """The number of edges below a value."""
    if sorter is not None or not isinstance(x, torch.Tensor):
        return NotImplemented
    edges, values = edges.unsqueeze(-2) if edges.dim() > 1 else edges, x.unsqueeze(-1)
    is_below = ~(edges > values) if right or side == "right" else ~(edges >= values)
    return is_below.sum(-1).to(torch.int32 if out_int32 else torch.int64)


# -- scans ------------------------------------------------------------------------------------------------------------


def cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Products of the values so far, one after the other."""
    x = x.to(dtype) if dtype is not None else x if x.is_floating_point() else x.to(torch.int64)
    if not x.dim() or not x.shape[dim]:
        return x.clone()
    products = [x.narrow(dim, 0, 1)]
    for index in range(1, x.shape[dim]):
        products.append(products[-1] * x.narrow(dim, index, 1))
    return torch.cat(products, dim)


def cummax(x: torch.Tensor, dim: int) -> Any:
    """Largest values so far, and their places."""
    return _running(lambda new, old: new >= old, x, dim)


def cummin(x: torch.Tensor, dim: int) -> Any:
    """Smallest values so far, and their places."""
    return _running(lambda new, old: new <= old, x, dim)


def _running(is_ahead: Callable[..., torch.Tensor], x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Combine each value with those before it, in doubling steps; NaN is ahead of everything."""
    size = x.shape[dim]
    numbers = torch.arange(size).reshape([size if axis == dim % x.dim() else 1 for axis in range(x.dim())])
    places = numbers + torch.zeros_like(x, dtype=torch.int64)
    for step in _doubling(x, dim):
        head, place = x.narrow(dim, 0, size - step), places.narrow(dim, 0, size - step)
        tail, tail_place = x.narrow(dim, step, size - step), places.narrow(dim, step, size - step)
        keeps = is_ahead(tail, head)
        if x.is_floating_point():
            keeps = tail.isnan() | (keeps & ~head.isnan())
        x = torch.cat([x.narrow(dim, 0, step), torch.where(keeps, tail, head)], dim)
        places = torch.cat([places.narrow(dim, 0, step), torch.where(keeps, tail_place, place)], dim)
    return x, places


def _doubling(x: torch.Tensor, dim: int) -> list[int]:
    return [2**power for power in range(max(x.shape[dim] - 1, 0).bit_length())] if x.dim() else []


FORMS = {
    aten.amax.default: amax,
    aten.amin.default: amin,
    aten.max.default: max_all,
    aten.min.default: min_all,
    aten.argmax.default: argmax,
    aten.argmin.default: argmin,
    aten.max.dim: _of_floats(max_dim),
    aten.min.dim: _of_floats(min_dim),
    aten.sort.default: sort,
    aten.sort.stable: sort_stable,
    aten.topk.default: topk,
    aten.kthvalue.default: kthvalue,
    aten.median.dim: median_dim,
    aten.median.default: median_all,
    aten.searchsorted.Tensor: searchsorted,
    aten.cumprod.default: cumprod,
    aten.cummax.default: cummax,
    aten.cummin.default: cummin,
}
