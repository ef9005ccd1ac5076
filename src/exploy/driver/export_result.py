"""The result of an export."""

from dataclasses import dataclass
from pathlib import Path

from exploy.contract import Contract
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.tables import Table
from exploy.verify.verdict import Verdict


@dataclass(frozen=True)
class Verification:
    """The checks of a file before it was written.

    Attributes:
        program: It was compared with the captured program and run by the controller.
        environment: It was compared with the live environment, with other values of its inputs.
        trace_ticks: Number of ticks in the trace for its self-test; 0 if it has no trace.
        not_compared: Outputs that depend on random numbers, or that no step of the environment has shown.
        comparisons: Number of comparisons.
    """

    program: bool
    environment: bool
    trace_ticks: int
    not_compared: tuple[str, ...] = ()
    comparisons: int = 0

    @property
    def verdict(self) -> Verdict:
        """AGREES if all outputs were compared with the program and the environment; otherwise INCOMPLETE."""
        is_complete = self.program and self.environment and not self.not_compared
        return Verdict.AGREES if is_complete else Verdict.INCOMPLETE

    def __str__(self) -> str:
        done = {"the captured program": self.program, "the live environment": self.environment}
        against = [name for name, was_done in done.items() if was_done]
        compared = f"{self.comparisons} comparisons with {' and '.join(against)}" if against else "not compared"
        left_out = f"; not compared: {', '.join(self.not_compared)}" if self.not_compared else ""
        return f"{self.verdict}: {compared}{left_out}; {self.trace_ticks} ticks for its self-test"


@dataclass(frozen=True)
class ExportResult:
    """An exported file. It prints as a table.

    Attributes:
        path: The file.
        contract: The contract of the file.
        verification: The checks of the file.
        diagnosis: The findings of a strict export; None if the export was not strict.
    """

    path: Path
    contract: Contract
    verification: Verification
    diagnosis: Diagnosis | None = None

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        checked = "not checked (strict=False)" if self.diagnosis is None else self.diagnosis.verdict
        rows = [
            ("file", f"{self.path} ({self.path.stat().st_size / 1024:.1f} KiB)" if self.path.is_file() else self.path),
            ("verified", self.verification),
            ("environment", checked),
        ]
        table = Table("", "", rows=[(name, str(value)) for name, value in rows])
        return f"{table}\n{self.contract}"
