"""Operators that change shapes."""

from collections.abc import Sequence
from typing import Any

import torch

aten = torch.ops.aten


def squeeze(x: torch.Tensor, dims: int | Sequence[int]) -> Any:
    """Leave dimensions of other sizes than one alone, as torch does: onnxruntime refuses torch's own form."""
    wanted = [dims] if isinstance(dims, int) else list(dims)
    of_one = [dim for dim in wanted if x.dim() == 0 or x.shape[dim] == 1]
    if of_one == wanted:
        return NotImplemented
    return aten.squeeze.dims(x, of_one) if of_one else x


FORMS = {
    aten.squeeze.dim: squeeze,
    aten.squeeze.dims: squeeze,
}
