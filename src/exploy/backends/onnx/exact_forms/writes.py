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


def diagonal_scatter(
    base: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    """Choose by the position: torch's own form writes into a view, which torch.export refuses."""
    matrices = base.movedim((dim1, dim2), (-2, -1))
    rows, columns = torch.arange(matrices.shape[-2])[:, None], torch.arange(matrices.shape[-1])[None]
    along = (columns if offset < 0 else rows).clamp(max=source.shape[-1] - 1)
    chosen = torch.where(columns - rows == offset, source[..., along], matrices)
    return chosen.movedim((-2, -1), (dim1, dim2))


FORMS = {
    aten.diagonal_scatter.default: diagonal_scatter,
    aten.copy.default: copy,
    aten.scatter_reduce.two: scatter_reduce,
}
