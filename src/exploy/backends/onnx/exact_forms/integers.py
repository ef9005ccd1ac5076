"""Operators on integers that onnxruntime lacks, or computes wrongly.

onnxruntime 1.31 compares int64 by their lower 32 bits in Clip, Min and Max, and has few operators for 8 and 16 bits.
"""

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

_SMALL = (torch.int8, torch.int16, torch.uint8)


def maximum(x: torch.Tensor, y: torch.Tensor) -> Any:
    """The larger integer."""
    return NotImplemented if _is_float(x, y) else _chosen(lambda a, b: a > b, x, y)


def minimum(x: torch.Tensor, y: torch.Tensor) -> Any:
    """The smaller integer."""
    return NotImplemented if _is_float(x, y) else _chosen(lambda a, b: a < b, x, y)


def _chosen(is_first: Callable[..., torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    dtype = torch.result_type(x, y)
    if dtype is torch.bool:
        return (x | y) if is_first(1, 0) else (x & y)
    x, y = x.to(_wide(dtype)), y.to(_wide(dtype))
    return torch.where(is_first(x, y), x, y).to(dtype)


def clamp(x: torch.Tensor, low: Any = None, high: Any = None) -> Any:
    """An integer between bounds, which are integers."""
    if _is_float(x, low, high) or x.dtype is torch.bool:
        return NotImplemented
    found = x.to(_wide(x.dtype))
    if low is not None:
        found = torch.where(found < low, low, found)
    if high is not None:
        found = torch.where(found > high, high, found)
    return found.to(torch.result_type(x, low) if isinstance(low, torch.Tensor) else x.dtype)


def clamp_max(x: torch.Tensor, high: Any) -> Any:
    """An integer below a bound."""
    return clamp(x, None, high)


def relu(x: torch.Tensor) -> Any:
    """An integer that is not negative."""
    return NotImplemented if _is_float(x) else clamp(x, 0)


def where(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
    """A choice of small integers, or of flags."""
    dtype = torch.result_type(x, y)
    if dtype is torch.bool:
        return (condition & x) | (~condition & y)
    if dtype not in _SMALL:
        return NotImplemented
    return torch.where(condition, x.to(torch.int32), y.to(torch.int32)).to(dtype)


def masked_fill(x: torch.Tensor, mask: torch.Tensor, value: Any) -> Any:
    """Flags that are set to another one."""
    if x.dtype is not torch.bool:
        return NotImplemented
    return where(mask, value.to(x.dtype) if isinstance(value, torch.Tensor) else torch.full_like(x, bool(value)), x)


def square(x: torch.Tensor) -> Any:
    """A square of small integers, which wraps as theirs does."""
    return NotImplemented if x.dtype not in _SMALL else (x.to(torch.int32) * x.to(torch.int32)).to(x.dtype)


def pow_number(x: torch.Tensor, exponent: Any) -> Any:
    """A power of small integers."""
    if x.dtype not in _SMALL or exponent != 2:
        return NotImplemented
    return square(x)


def neg(x: torch.Tensor) -> Any:
    """The negative of unsigned integers, which wraps."""
    return NotImplemented if x.dtype is not torch.uint8 else x.to(torch.int32).neg().to(torch.uint8)


def sum_all(x: torch.Tensor, *, dtype: torch.dtype | None = None) -> Any:
    """The sum of int64, in two halves: onnxruntime adds them as floats."""
    return sum_dims(x, None, dtype=dtype)


def sum_dims(x: torch.Tensor, dims: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """The sum of int64 along dimensions."""
    if x.dtype is not torch.int64 or dtype not in (None, torch.int64):
        return NotImplemented
    low = torch.remainder(x, 2**32)
    high = torch.floor_divide(x, 2**32)
    halves = [_sum(part.to(torch.float64), dims, keepdim).to(torch.int64) for part in (high, low)]
    return halves[0] * 2**32 + halves[1]


def _sum(x: torch.Tensor, dims: Any, keepdim: bool) -> torch.Tensor:
    return x.sum() if dims is None else x.sum(dims, keepdim)


def add(x: torch.Tensor, y: Any, *, alpha: Any = 1) -> Any:
    """The sum of flags."""
    if alpha != 1 or not isinstance(y, torch.Tensor) or torch.result_type(x, y) is not torch.bool:
        return NotImplemented
    return x | y


def _is_float(*values: Any) -> bool:
    return any(item.is_floating_point() if isinstance(item, torch.Tensor) else type(item) is float for item in values)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.int32 if dtype in _SMALL else dtype


FORMS = {
    aten.maximum.default: maximum,
    aten.minimum.default: minimum,
    aten.max.other: maximum,
    aten.min.other: minimum,
    aten.clamp.default: clamp,
    aten.clamp.Tensor: clamp,
    aten.clip.default: clamp,
    aten.clip.Tensor: clamp,
    aten.clamp_min.default: clamp,
    aten.clamp_max.default: clamp_max,
    aten.relu.default: relu,
    aten.where.self: where,
    aten.masked_fill.Scalar: masked_fill,
    aten.masked_fill.Tensor: masked_fill,
    aten.square.default: square,
    aten.pow.Tensor_Scalar: pow_number,
    aten.neg.default: neg,
    aten.sum.default: sum_all,
    aten.sum.dim_IntList: sum_dims,
    aten.add.Tensor: add,
}
