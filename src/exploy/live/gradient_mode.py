"""The torch gradient mode in which environment code runs."""

import contextlib
from collections.abc import Iterable
from typing import Any

import torch

from exploy.environment.components import Input, Output
from exploy.environment.context_manager import ContextManager
from exploy.errors import ActorError


def gradient_mode(tensors: Iterable[torch.Tensor]) -> contextlib.AbstractContextManager[Any]:
    """Inference mode if any of the tensors is an inference tensor, else `torch.no_grad()`.

    Inference mode must not be used for other environments: it would leave tensors that cannot be modified later, and
    caches that do not support gradients.
    """
    return torch.inference_mode() if any(tensor.is_inference() for tensor in tensors) else torch.no_grad()


def gradient_mode_of(manager: ContextManager) -> contextlib.AbstractContextManager[Any]:
    """The gradient mode for an environment, based on its registered tensors; see `gradient_mode()`."""
    components: list[Input | Output] = [*manager.get_input_components(), *manager.get_output_components()]
    return gradient_mode(tensor for item in components if (tensor := _fetched(item)) is not None)


def _fetched(component: Input | Output) -> torch.Tensor | None:
    try:
        return component.fetch()
    except ActorError:
        return None  # the actor has dropped its state
