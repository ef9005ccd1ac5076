"""Operators that write tensors into others."""

from typing import Any

import torch

aten = torch.ops.aten


def copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
    """Expand the source first if it is smaller: torch's own form gives a tensor with its shape."""
    if target.shape == source.shape:
        return NotImplemented
    return aten.copy.default(target, source.expand_as(target))


def scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """The mean as a sum and a count: torch's own form gives something else."""
    if reduce != "mean":
        return NotImplemented
    ones = torch.ones_like(source)
    start, count = (x, torch.ones_like(x)) if include_self else (torch.zeros_like(x), torch.zeros_like(x))
    total, count = start.scatter_add(dim, index, source), count.scatter_add(dim, index, ones)
    return torch.where(count > 0, total / torch.where(count > 0, count, ones.flatten()[:1].reshape(())), x)


FORMS = {
    aten.copy.default: copy,
    aten.scatter_reduce.two: scatter_reduce,
}
