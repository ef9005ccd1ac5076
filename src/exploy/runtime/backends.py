"""Finds what can run a file: onnxruntime, torch, a library in it, or what another package brings."""

import importlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from exploy.errors import BackendError, ContractError
from exploy.runtime.execution_backend import ExecutionBackend
from exploy.runtime.file_errors import refused
from exploy.runtime.model_file import ModelFile
from exploy.runtime.step_runner import StepRunner

GROUP = "exploy.backends"
_OWN = {
    "onnx": "exploy.runtime.onnx.steps:OnnxExecution",
    "torch_export": "exploy.runtime.pt2.steps:TorchExecution",
    "aot_inductor": "exploy.runtime.pt2.steps:TorchExecution",
    "c": "exploy.runtime.c.execution:CExecution",
}


REGISTERED: dict[str, type[ExecutionBackend]] = {}


def find_backend(name: str, own: Mapping[str, str]) -> Any:
    """The class of a backend: one that was registered, one of ours, or one that another package brings; None if none.

    Args:
        name: Its name.
        own: Where ours are, by name, as `module:class`.

    Raises:
        BackendError: If it cannot be imported.
    """
    if name in REGISTERED:
        return REGISTERED[name]
    places = [own[name]] if name in own else [point.value for point in entry_points(group=GROUP, name=name)]
    for place in places:
        module, _, kind = place.partition(":")
        try:
            return getattr(importlib.import_module(module), kind)
        except Exception as error:
            raise BackendError(
                f"The backend {name!r} of {place} cannot be used: {type(error).__name__}: {error}"
            ) from error
    return None


def open_steps(file: ModelFile, **options: Any) -> tuple[StepRunner, StepRunner]:
    """Open the policy step and the sub-step of a file; both are the same where there is one rate.

    Args:
        file: The file, whose contract names its backend.
        **options: `threads`, `spinning` and `split`; each backend takes what it has a use for.

    Raises:
        SignatureError: If the file has compiled code that nobody has vouched for.
        ContractError: If the backend is not known or not installed, or cannot read the file.
    """
    file.require_no_unknown_code()
    name = file.contract.backend
    try:
        kind = find_backend(name, _OWN)
    except BackendError as error:
        raise ContractError(str(error)) from error
    if kind is None:
        raise ContractError(
            f"The file is for the backend {name!r}, which is not installed; there are {', '.join(_OWN)}. Install the "
            f"package that made it (an entry point {name!r} in {GROUP!r})."
        )
    parsed = {} if file.outline is None else {"outline": file.outline}
    with refused("The file", "opened"):
        opened: tuple[StepRunner, StepRunner] = kind().open_steps(file.data, file.contract, **options, **parsed)
        return opened


def register(backend: type[ExecutionBackend]) -> None:
    """Make a backend known in this process; packages do so by an entry point."""
    REGISTERED[backend.name] = backend
