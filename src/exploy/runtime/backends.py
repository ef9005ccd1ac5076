"""Finds what can run a file: onnxruntime, torch, or what another package brings."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, ClassVar

from exploy.contract import Contract
from exploy.errors import ContractError
from exploy.runtime.model_file import ModelFile
from exploy.runtime.step_runner import StepRunner

GROUP = "exploy.backends"
_OWN = {
    "onnx": "exploy.runtime.onnx.steps",
    "torch_export": "exploy.runtime.pt2.steps",
    "aot_inductor": "exploy.runtime.pt2.steps",
}


class ExecutionBackend(ABC):
    """Runs the files of one format.

    Subclasses of other packages are entry points of the group `exploy.backends`, under their name. As a rule these are
    an `exploy.backends.backend.Backend`, which writes such files as well.
    """

    name: ClassVar[str]

    @abstractmethod
    def open_steps(self, data: bytes, contract: Contract, **options: Any) -> tuple[StepRunner, StepRunner]:
        """Open the policy step and the sub-step of a file; both are the same where there is one rate.

        Args:
            data: The bytes of the file, whose digest is right.
            contract: What it says about itself.
            **options: `threads`, `spinning` and `split`, for what there is a use for.

        Raises:
            ContractError: If the file cannot be read here.
        """


REGISTERED: dict[str, type[ExecutionBackend]] = {}


def open_steps(file: ModelFile, **options: Any) -> tuple[StepRunner, StepRunner]:
    """Open the policy step and the sub-step of a file; both are the same where there is one rate.

    Args:
        file: The file, whose contract names its backend.
        **options: `threads`, `spinning` and `split`; each backend takes what it has a use for.

    Raises:
        ContractError: If the backend is not known or not installed, or cannot read the file.
    """
    opened: tuple[StepRunner, StepRunner] = _opener(file.contract.backend)(file.data, file.contract, **options)
    return opened


def register(backend: type[ExecutionBackend]) -> None:
    """Make a backend known in this process; packages do so by an entry point."""
    REGISTERED[backend.name] = backend


def _opener(name: str) -> Callable[..., tuple[StepRunner, StepRunner]]:
    if name in REGISTERED:
        return REGISTERED[name]().open_steps
    if name in _OWN:
        opener: Callable[..., tuple[StepRunner, StepRunner]] = importlib.import_module(_OWN[name]).open_steps
        return opener
    for point in entry_points(group=GROUP, name=name):
        try:
            found: Callable[..., tuple[StepRunner, StepRunner]] = point.load()().open_steps
        except Exception as error:
            raise ContractError(
                f"The backend {name!r} of {point.value} cannot be used: {type(error).__name__}: {error}"
            ) from error
        return found
    raise ContractError(
        f"The file is for the backend {name!r}, which is not installed; there are {', '.join(_OWN)}. Install the "
        f"package that made it (an entry point {name!r} in {GROUP!r})."
    )
