"""What runs the files of one format."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from exploy.contract import Contract
from exploy.runtime.step_runner import StepRunner


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
            **options: `threads`, `spinning`, `split`, and for ONNX files `outline`; use what applies, ignore the rest.

        Raises:
            ContractError: If the file cannot be read here.
        """
