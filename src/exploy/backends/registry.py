"""Lists and creates backends: built-in ones, and those of other packages found as entry points."""

from importlib.metadata import entry_points
from typing import Any

from exploy.backends.backend import Backend
from exploy.errors import BackendError, ExployError
from exploy.runtime.backends import GROUP, REGISTERED, find_backend

_OWN = {
    "onnx": "exploy.backends.onnx.backend:OnnxBackend",
    "torch_export": "exploy.backends.torch.backend:TorchExportBackend",
    "aot_inductor": "exploy.backends.torch.backend:AotInductorBackend",
    "c": "exploy.backends.c.backend:CBackend",
}
_BY_SUFFIX = {".pt2": "torch_export", ".c.zip": "c"}


def names() -> list[str]:
    """The names of all backends."""
    return list(dict.fromkeys([*_OWN, *REGISTERED, *(point.name for point in entry_points(group=GROUP))]))


def backend_for(path: object, name: str | None = None, **options: Any) -> Backend:
    """Create the backend of that name. Default: the backend for the suffix of the file.

    Args:
        path: The file to write.
        name: Name of the backend.
        **options: Arguments of the backend class.

    Raises:
        BackendError: If the name is unknown, or the backend cannot be created.
    """
    return make_backend(name or name_for(path), **options)


def name_for(path: object) -> str:
    """The name of the backend for the suffix of a file."""
    return next((backend for suffix, backend in _BY_SUFFIX.items() if str(path).endswith(suffix)), "onnx")


def make_backend(name: str, **options: Any) -> Backend:
    """Create a backend.

    Args:
        name: Name of the backend.
        **options: Arguments of the backend class.

    Raises:
        BackendError: If the name is unknown, or the backend cannot be created.
    """
    kind = find_backend(name, _OWN)
    if kind is None:
        raise BackendError(f"Unknown backend {name!r}. Available: {', '.join(names())}.")
    try:
        made: Any = kind(**options)
    except ExployError:
        raise
    except Exception as error:
        raise BackendError(f"The backend {name!r} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(made, Backend):
        raise BackendError(f"The backend {name!r} must be a subclass of Backend, got {type(made).__name__}.")
    return made
