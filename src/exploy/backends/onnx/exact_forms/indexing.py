"""Indices of int32, which onnxruntime refuses where torch takes them."""

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _with_long_indices(operator: Any) -> Callable[..., Any]:
    """The form of an operator that takes a list of indices, with int64 instead of int32."""

    def form(x: torch.Tensor, indices: list[torch.Tensor | None], *args: Any, **options: Any) -> Any:
        if not any(item is not None and item.dtype is torch.int32 for item in indices):
            return NotImplemented
        return operator(x, [None if item is None else _long(item) for item in indices], *args, **options)

    return form


def _with_long_index(operator: Any, position: int) -> Callable[..., Any]:
    """The form of an operator that takes one index tensor."""

    def form(*args: Any, **options: Any) -> Any:
        if not isinstance(args[position], torch.Tensor) or args[position].dtype is not torch.int32:
            return NotImplemented
        return operator(*args[:position], args[position].to(torch.int64), *args[position + 1 :], **options)

    return form


def _long(index: torch.Tensor) -> torch.Tensor:
    return index.to(torch.int64) if index.dtype is torch.int32 else index


FORMS = {
    aten.index.Tensor: _with_long_indices(aten.index.Tensor),
    aten.index_put.default: _with_long_indices(aten.index_put.default),
    aten._unsafe_index.Tensor: _with_long_indices(aten.index.Tensor),
    aten.index_select.default: _with_long_index(aten.index_select.default, 2),
    aten.index_add.default: _with_long_index(aten.index_add.default, 2),
    aten.index_copy.default: _with_long_index(aten.index_copy.default, 2),
    aten.index_fill.int_Scalar: _with_long_index(aten.index_fill.int_Scalar, 2),
    aten.index_fill.int_Tensor: _with_long_index(aten.index_fill.int_Tensor, 2),
    aten.gather.default: _with_long_index(aten.gather.default, 2),
    aten.embedding.default: _with_long_index(aten.embedding.default, 1),
}
