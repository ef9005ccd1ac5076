"""Raises an error when a traced value leaves torch, because its result would silently become a constant."""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_iter

from exploy.capture.recording import Recording, data_dependent_message
from exploy.errors import DataDependentError
from exploy.live.geometry import has_memory
from exploy.live.location import calling_line
from exploy.live.snapshot import Snapshot

_ESCAPES = {
    "__bool__": "The truth value of a tensor (if, while, and, assert)",
    "__int__": "A number from int()",
    "__float__": "A number from float()",
    "__complex__": "A number from complex()",
    "__index__": "A tensor used as a Python index",
    "__contains__": "The result of `in` on a tensor",
    "item": "A number from .item()",
    "tolist": "A list from .tolist()",
    "numpy": "An array from .numpy()",
    "__array__": "An array created by numpy",
    "__dlpack__": "Memory exported through DLPack",
    "to_dlpack": "Memory exported through DLPack",
    "_to_dlpack": "Memory exported through DLPack",
    "data_ptr": "The address of a tensor",
    "__cuda_array_interface__": "Memory exported through the CUDA array interface",
    "equal": "The result of torch.equal()",
    "allclose": "The result of torch.allclose()",
    "is_nonzero": "The result of torch.is_nonzero()",
}
_PRINTING = {"__repr__", "__str__", "__format__"}


class EscapeGuard(TorchFunctionMode):
    """Intercepts every call of a torch function while recording.

    Python may read values that do not depend on an input, because they are constants. Recording is disabled for these
    reads. Tensors that are new to the recording are added to the snapshot before anything can write to them.
    """

    def __init__(self, recording: Recording, snapshot: Snapshot):
        super().__init__()
        self._recording = recording
        self._snapshot = snapshot

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch function.

        Raises:
            DataDependentError: If it would move a value that depends on an input out of torch.
        """
        kwargs = kwargs or {}
        name = _name(func)
        if name in _PRINTING:
            with disable_proxy_modes_tracing():
                return func(*args, **kwargs)
        tensors = [item for item in tree_iter((args, kwargs)) if isinstance(item, torch.Tensor) and has_memory(item)]
        if name in _ESCAPES and tensors:
            return self._read(name, func, tensors, args, kwargs)
        self._protect(tensors)
        if name == "__deepcopy__":
            return args[0].clone()
        return func(*args, **kwargs)

    def _read(self, name: str, func: Callable[..., Any], tensors: list[torch.Tensor], args: Any, kwargs: Any) -> Any:
        if any(self._recording.depends_on_arguments(tensor) for tensor in tensors):
            raise DataDependentError(data_dependent_message(_ESCAPES[name], calling_line()))
        with disable_proxy_modes_tracing():
            return func(*args, **kwargs)

    def _protect(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            if not self._recording.is_traced(tensor):
                self._snapshot.protect(tensor)


def _name(func: Callable[..., Any]) -> str:
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return (resolve_name(func) or "").split(".")[-2]
    return name
