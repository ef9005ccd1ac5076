"""Operators that write tensors into others."""

from typing import Any

import torch

aten = torch.ops.aten


def copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
    """Give a smaller source the shape of the target first: torch's own form gives a tensor with its shape."""
    if target.shape == source.shape:
        return NotImplemented
    return torch.where(torch.ones_like(target, dtype=torch.bool), source.to(target.dtype), target)


def scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """The mean as a sum and a count: torch's own form gives something else."""
    if reduce != "mean":
        return NotImplemented
    ones = torch.ones_like(source)
    start, count = (x, torch.ones_like(x)) if include_self else (torch.zeros_like(x), torch.zeros_like(x))
    total, count = start.scatter_add(dim, index, source), count.scatter_add(dim, index, ones)
    divisor = count + (count == 0).to(count.dtype)
    mean = total / divisor if x.is_floating_point() else torch.floor_divide(total, divisor)
    return torch.where(count == 0, x, mean)


FORMS = {
    aten.copy.default: copy,
    aten.scatter_reduce.two: scatter_reduce,
}
