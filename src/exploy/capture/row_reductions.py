"""Sums, means and extremes over the elements that a mask selects, expressed with all elements."""

from collections.abc import Callable
from typing import Any

import torch

from exploy.capture.masked_rows import MaskedRows

Reduction = Callable[[torch.Tensor, torch.Tensor, Any], torch.Tensor]


def _sum(full: torch.Tensor, flags: torch.Tensor, axes: Any) -> torch.Tensor:
    return torch.where(flags, full, torch.zeros((), dtype=full.dtype)).sum(axes)


def _mean(full: torch.Tensor, flags: torch.Tensor, axes: Any) -> torch.Tensor:
    total = _sum(full, flags, axes)
    return total / flags.expand(full.shape).sum(axes).to(total.dtype)


def _any(full: torch.Tensor, flags: torch.Tensor, axes: Any) -> torch.Tensor:
    found = (full != 0) & flags
    return found.any() if axes is None else found.any(axes)


def _all(full: torch.Tensor, flags: torch.Tensor, axes: Any) -> torch.Tensor:
    return ~_any(full == 0, flags, axes)


def _max(full: torch.Tensor, flags: torch.Tensor, axes: Any) -> torch.Tensor:
    filled = torch.where(flags, full, torch.full((), _limits(full.dtype)[0], dtype=full.dtype))
    return filled.max() if axes is None else filled.amax(axes)


def _min(full: torch.Tensor, flags: torch.Tensor, axes: Any) -> torch.Tensor:
    filled = torch.where(flags, full, torch.full((), _limits(full.dtype)[1], dtype=full.dtype))
    return filled.min() if axes is None else filled.amin(axes)


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    if dtype.is_floating_point:
        return -float("inf"), float("inf")
    return (False, True) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


REDUCTIONS: dict[str, Reduction] = {
    "sum": _sum,
    "mean": _mean,
    "any": _any,
    "all": _all,
    "max": _max,
    "min": _min,
    "amax": _max,
    "amin": _min,
}
_WITH_POSITIONS = ("max", "min")


def reduced(name: str, rows: MaskedRows, dim: Any = None, **options: Any) -> torch.Tensor | None:
    """Reduce masked rows, along their own axis or along all axes.

    Of no rows, `max` and `min` give the smallest and the largest number, where torch raises an error.

    Returns:
        The result, without masked rows; None if the rows remain, or for options that are not supported.
    """
    full, mask, axis = rows._exploy_full, rows._exploy_mask, rows._exploy_axis
    if "axis" in options and dim is None:
        dim = options.pop("axis")
    if options or (dim is not None and (not isinstance(dim, int) or name in _WITH_POSITIONS)):
        return None
    if dim is not None and dim % full.dim() != axis:
        return None
    flags = mask.view(-1, *[1] * (full.dim() - 1 - axis))
    return REDUCTIONS[name](full, flags, None if dim is None else axis)
