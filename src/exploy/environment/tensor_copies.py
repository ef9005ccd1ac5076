"""Copies tensors of any device."""

import numpy as np
import torch

from exploy.errors import ComponentError


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return a numpy copy of a tensor of any device.

    Raises:
        ComponentError: If numpy does not have its dtype.
    """
    try:
        return np.array(tensor.numpy(force=True))
    except TypeError as error:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise ComponentError(
            f"A tensor of shape {tuple(tensor.shape)} has the dtype {kind}, which numpy does not support. "
            "Convert it, for example with .float()."
        ) from error


def cpu_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy on the CPU that is neither an inference tensor nor a parameter."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
