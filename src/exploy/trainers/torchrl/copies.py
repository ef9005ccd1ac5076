"""Copies of what belongs to a training run."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from exploy.policy.copies import own_copy

T = TypeVar("T")
_UNINITIALIZED: Any = (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)


def own(module: T) -> T:
    """A copy on the CPU in evaluation mode, in which tensors without data stay so.

    Multi-agent networks have such tensors, and transforms that take their values from an environment later.
    """
    with _NoDataStaysNoData():
        return own_copy(module)


def own_transform(transform: Any) -> Any:
    """A copy of a transform without its environment."""
    alone = copy.copy(transform)
    vars(alone).update(_container=None, _parent=None)
    return own(alone)


def peek(owner: Any, name: str) -> Any:
    """An attribute that the library may compute and keep; the object is afterwards as before. None if it fails."""
    before = dict(vars(owner))
    try:
        return getattr(owner, name)
    except Exception:
        return None
    finally:
        vars(owner).clear()
        vars(owner).update(before)


def uninitialized(module: torch.nn.Module) -> list[str]:
    """The names of parameters and buffers that have no shape yet."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return [name for name, tensor in tensors if isinstance(tensor, _UNINITIALIZED)]


class _NoDataStaysNoData(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tensor = args[0] if args else None
        if isinstance(tensor, _UNINITIALIZED):
            if func is torch.Tensor.detach:
                return _UNINITIALIZED[1](dtype=tensor.dtype)
            if func in (torch.Tensor.cpu, torch.Tensor.clone):
                return tensor
        if func is torch.Tensor.cpu and isinstance(tensor, torch.Tensor) and tensor.is_meta:
            return tensor
        return func(*args, **(kwargs or {}))
