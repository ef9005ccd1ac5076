"""The mode of torch in which an environment's code is run."""

import contextlib
from collections.abc import Iterable
from typing import Any

import torch

from exploy.environment.context_manager import ContextManager


def gradient_mode(tensors: Iterable[torch.Tensor]) -> contextlib.AbstractContextManager[Any]:
    """Inference mode where one of an environment's tensors lives in it, else no gradients.

    Stepping an ordinary environment in inference mode would leave it with tensors that cannot be written to afterwards,
    and with caches that no gradient can pass.
    """
    return torch.inference_mode() if any(tensor.is_inference() for tensor in tensors) else torch.no_grad()


def gradient_mode_of(manager: ContextManager) -> contextlib.AbstractContextManager[Any]:
    """The mode for an environment, from its registered tensors; see `gradient_mode()`."""
    components = (*manager.get_input_components(), *manager.get_output_components())
    return gradient_mode(item.fetch() for item in components)
