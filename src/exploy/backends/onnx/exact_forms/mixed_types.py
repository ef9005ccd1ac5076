"""Normalisations of float16 values by float32 weights, as autocast calls them: ONNX wants one type."""

from typing import Any

import torch

aten = torch.ops.aten


def _in_float32(target: Any) -> Any:
    def form(values: torch.Tensor, *args: Any, **options: Any) -> Any:
        tensors = [item for item in (*args, *options.values()) if isinstance(item, torch.Tensor)]
        if values.dtype is not torch.float16 or all(item.dtype is values.dtype for item in tensors):
            return NotImplemented
        return target(values.float(), *args, **options).to(values.dtype)

    return form


FORMS = {
    target: _in_float32(target)
    for target in (aten.layer_norm.default, aten.group_norm.default, aten.batch_norm.default, aten.rms_norm.default)
}
