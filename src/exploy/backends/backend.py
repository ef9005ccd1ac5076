"""A file format: how a captured program is converted to it, and how it is run."""

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from exploy.runtime.execution_backend import ExecutionBackend

if TYPE_CHECKING:  # needs torch, but this module is also imported to run files
    from exploy.backends.artifact import Artifact
    from exploy.capture.program import Program


class Backend(ExecutionBackend):
    """A file format: how a captured program is converted to it, and how it is run.

    Subclasses in other packages must be importable where files are run. Imports that only the export needs belong in
    `lower()`.
    """

    suffix: ClassVar[str]

    def for_file(self, path: Path) -> Self:
        """Return the backend for a file, for formats whose contents depend on its name; by default, there are none."""
        return self

    @abstractmethod
    def lower(self, program: "Program", decimation: int | None) -> "Artifact":
        """Lower a program to the backend's form.

        Args:
            program: The captured program.
            decimation: Ticks per policy step. None for a policy without environment, which has one rate.

        Raises:
            LoweringError: If the program cannot be lowered.
        """
