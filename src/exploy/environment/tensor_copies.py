"""Copies tensors of any device and class."""

import numpy as np
import torch

from exploy.errors import ComponentError


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as a tensor of torch's own class; a tensor that computes by itself is returned as it is."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) or computes_by_itself(tensor):
        return tensor
    with torch._C.DisableTorchFunction():
        return tensor.as_subclass(torch.Tensor)


def computes_by_itself(tensor: torch.Tensor) -> bool:
    """Whether the class of a tensor defines what operators do with it (`__torch_dispatch__`)."""
    return type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return a numpy copy of a tensor of any device.

    Raises:
        ComponentError: If numpy does not have its dtype.
    """
    try:
        return np.array(as_plain(tensor).numpy(force=True))
    except TypeError as error:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise ComponentError(
            f"A tensor of shape {tuple(tensor.shape)} has the dtype {kind}, which numpy does not support. "
            "Convert it, for example with .float()."
        ) from error


def cpu_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy on the CPU that is neither an inference tensor nor a parameter."""
    return as_plain(tensor).detach().cpu().clone(memory_format=torch.contiguous_format)
