"""A format of files: how a captured program becomes one, and how it is run."""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from exploy.runtime.execution_backend import ExecutionBackend

if TYPE_CHECKING:  # needs torch, and this module is imported where files are run
    from exploy.backends.artifact import Artifact
    from exploy.capture.program import Program


class Backend(ExecutionBackend):
    """A format of files: how a captured program becomes one, and how it is run.

    Subclasses of other packages must be importable where files are run, so imports that only the export needs belong
    into `lower()`.
    """

    suffix: ClassVar[str]

    @abstractmethod
    def lower(self, program: "Program", decimation: int | None) -> "Artifact":
        """Bring a program into the backend's form.

        Args:
            program: The captured program.
            decimation: Ticks in a policy step; None for a policy alone, which has one rate.

        Raises:
            LoweringError: If the program has no such form.
        """
