"""Follows assignments that give a tensor the memory of another one: `x.data = y` and `x.set_(y)`.

What was recorded of the tensor before keeps the old memory, as views of it do. From then on it is a view of the other.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils.weak import WeakIdKeyDictionary

from exploy.environment.tensor_copies import as_plain
from exploy.live.geometry import Geometry

Dispatch = Callable[..., Any]


def recording_set(recording: Any, mode: Any, dispatch: Dispatch) -> Dispatch:
    """What a recording mode does with an operator, if that may be `set_()`, which is no torch function.

    Args:
        recording: The recording.
        mode: The mode.
        dispatch: What the mode does with other operators.
    """

    def dispatched(function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if function._schema.name != "aten::set_":
            return dispatch(function, types, args, kwargs)
        with mode:
            recording.guard.replace_memory(function, args)
        return args[0]

    return dispatched


def replace_memory(recording: Any, func: Callable[..., Any], tensor: torch.Tensor, value: torch.Tensor) -> Any:
    """Give a tensor the memory of another one, in the recording too."""
    if Geometry.of(tensor).same_place(Geometry.of(value)):
        return func(tensor, value)  # as in x.data += 1
    _keep_old_memory(recording, tensor)
    with torch._C.DisableTorchFunction():
        recorded = recording.plain.of(value).detach()
        with disable_proxy_modes_tracing():
            result = func(tensor, value)
    tracker = recording.tracker
    WeakIdKeyDictionary.__setitem__(tracker, tensor, tracker[recorded])
    return result


def _keep_old_memory(recording: Any, tensor: torch.Tensor) -> None:
    """Put another tensor with the same memory in the place of a tensor, in everything that was recorded of it."""
    recording.depends_on_arguments(tensor)  # which follows all writes up to here
    with torch._C.DisableTorchFunction(), disable_proxy_modes_tracing():
        old = as_plain(tensor).detach()
    recording.replace_tensor(tensor, old)
    if tensor in recording.tracker:
        WeakIdKeyDictionary.__setitem__(recording.tracker, old, recording.tracker[tensor])
        recording.plain.note(old)
