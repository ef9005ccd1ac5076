"""The result of an export."""

from dataclasses import dataclass
from pathlib import Path

from exploy.contract import Contract
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.tables import Table


@dataclass(frozen=True)
class Verification:
    """The checks of a file before it was written.

    Attributes:
        program: It was compared with the captured program and run by the controller.
        environment: It was compared with the live environment, with other values of its inputs.
        trace_ticks: Number of ticks in the trace for its self-test; 0 if it has no trace.
        not_compared: Outputs that depend on random numbers.
    """

    program: bool
    environment: bool
    trace_ticks: int
    not_compared: tuple[str, ...] = ()

    def __str__(self) -> str:
        done = {"the captured program": self.program, "the live environment": self.environment}
        beside = [name for name, was_done in done.items() if was_done]
        compared = f"agrees with {' and '.join(beside)}" if beside else "not compared with anything"
        left_out = f"; not compared: {', '.join(self.not_compared)}" if self.not_compared else ""
        return f"{compared}{left_out}; self-test of {self.trace_ticks} ticks"


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
