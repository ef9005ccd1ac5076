"""Copies tensors of any device."""

import numpy as np
import torch


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return a numpy copy of a tensor of any device."""
    return np.array(tensor.detach().resolve_conj().resolve_neg().cpu().numpy())


def cpu_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy on the CPU that is neither an inference tensor nor a parameter."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
