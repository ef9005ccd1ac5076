"""The backends that there are: ours, and those that other packages bring as entry points."""

import importlib
from importlib.metadata import entry_points
from typing import Any

from exploy.backends.backend import Backend
from exploy.errors import BackendError
from exploy.runtime.backends import GROUP, REGISTERED

_OWN = {
    "onnx": "exploy.backends.onnx.backend:OnnxBackend",
    "torch_export": "exploy.backends.torch.backend:TorchExportBackend",
    "aot_inductor": "exploy.backends.torch.backend:AotInductorBackend",
}


def names() -> list[str]:
    """Names of all backends."""
    return list(dict.fromkeys([*_OWN, *REGISTERED, *(point.name for point in entry_points(group=GROUP))]))


def make_backend(name: str, **options: Any) -> Backend:
    """A backend.

    Args:
        name: Its name.
        **options: What its class takes.

    Raises:
        BackendError: If there is none of that name, or it cannot be made.
    """
    try:
        if name in REGISTERED:
            made: Any = REGISTERED[name](**options)
        elif name in _OWN:
            module, _, kind = _OWN[name].partition(":")
            made = getattr(importlib.import_module(module), kind)(**options)
        else:
            point = next(iter(entry_points(group=GROUP, name=name)))
            made = point.load()(**options)
    except StopIteration:
        raise BackendError(f"There is no backend {name!r}; there are {', '.join(names())}.") from None
    except Exception as error:
        raise BackendError(f"The backend {name!r} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(made, Backend):
        raise BackendError(f"The backend {name!r} must be a subclass of Backend, got {type(made).__name__}.")
    return made
