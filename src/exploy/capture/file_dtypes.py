"""The dtypes that values of a file can have: those that torch, numpy and onnxruntime share."""

import torch

from exploy.environment.components import describe
from exploy.errors import ExployError
from exploy.live.geometry import has_memory

_DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bool,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
)  # fmt: skip
CONVERT_COMPONENT = "Convert it in the environment, for example with .float()."


def require_file_dtype(what: object, tensor: torch.Tensor, remedy: str, error: type[ExployError]) -> None:
    """Require that a tensor has values that can be stored in a file.

    Args:
        what: The tensor, for the message.
        tensor: The tensor.
        remedy: What to do if its dtype is not supported.
        error: The error to raise.

    Raises:
        ExployError: If its dtype is not supported, or it has no memory of its own.
    """
    if not has_memory(tensor):
        raise error(
            f"{what} is a {type(tensor).__name__} without memory of its own. Use the tensor that it wraps, or an "
            "ordinary one that is computed from it."
        )
    if tensor.dtype not in _DTYPES:
        raise error(f"{what} has {describe(tensor)}, a dtype that numpy or ONNX does not support. {remedy}")


def numpy_has(dtype: torch.dtype) -> bool:
    """Whether numpy has a dtype; bfloat16, for example, it has not."""
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return False
    return True
