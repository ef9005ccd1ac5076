"""Copies modules of a training run without changing the originals."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

T = TypeVar("T")


def own_copy(module: T) -> T:
    """A copy of a module (or of an object with modules) on the CPU, in evaluation mode and without gradients."""
    with _DetachedCopies():
        copied = copy.deepcopy(module)
    if isinstance(copied, torch.nn.Module):
        for change in (
            torch.nn.Module.cpu,
            torch.nn.Module.eval,
        ):  # in some libraries these methods do not return the module
            change(copied)
        torch.nn.Module.requires_grad_(copied, False)
    return copied


class _DetachedCopies(TorchFunctionMode):
    """Allows copying tensors that are results of a computation with gradients. torch raises otherwise."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.__deepcopy__:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = tensor.detach().cpu().clone()
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))
