"""The backends that there are: ours, and those that other packages bring as entry points."""

from importlib.metadata import entry_points
from typing import Any

from exploy.backends.backend import Backend
from exploy.errors import BackendError, ExployError
from exploy.runtime.backends import GROUP, REGISTERED, find_backend

_OWN = {
    "onnx": "exploy.backends.onnx.backend:OnnxBackend",
    "torch_export": "exploy.backends.torch.backend:TorchExportBackend",
    "aot_inductor": "exploy.backends.torch.backend:AotInductorBackend",
}


def names() -> list[str]:
    """Names of all backends."""
    return list(dict.fromkeys([*_OWN, *REGISTERED, *(point.name for point in entry_points(group=GROUP))]))


def backend_for(path: object, name: str | None = None, **options: Any) -> Backend:
    """The backend of that name, or where none is given, the one that the suffix of a file is for.

    Args:
        path: The file to be written.
        name: Name of the backend.
        **options: What its class takes.

    Raises:
        BackendError: If there is none of that name, or it cannot be made.
    """
    return make_backend(name or ("torch_export" if str(path).endswith(".pt2") else "onnx"), **options)


def make_backend(name: str, **options: Any) -> Backend:
    """A backend.

    Args:
        name: Its name.
        **options: What its class takes.

    Raises:
        BackendError: If there is none of that name, or it cannot be made.
    """
    kind = find_backend(name, _OWN)
    if kind is None:
        raise BackendError(f"There is no backend {name!r}; there are {', '.join(names())}.")
    try:
        made: Any = kind(**options)
    except ExployError:
        raise
    except Exception as error:
        raise BackendError(f"The backend {name!r} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(made, Backend):
        raise BackendError(f"The backend {name!r} must be a subclass of Backend, got {type(made).__name__}.")
    return made
