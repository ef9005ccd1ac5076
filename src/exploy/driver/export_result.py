"""What an export has done."""

from dataclasses import dataclass
from pathlib import Path

from exploy.contract import Contract
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.tables import Table


@dataclass(frozen=True)
class Verification:
    """What a file was compared with before it was written.

    Attributes:
        program: It was run beside the captured program, and by the controller.
        environment: It was run beside the live environment, at other values of its inputs.
        trace_ticks: Ticks of the trace by which it can test itself; 0 where it has none.
        not_compared: Outputs that random numbers reach.
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
        return f"{compared}{left_out}; {self.trace_ticks} ticks to test itself by"


@dataclass(frozen=True)
class ExportResult:
    """A file that was exported. Printed, it is a table.

    Attributes:
        path: The file.
        contract: What it says about itself.
        verification: What it was compared with.
        diagnosis: What the check of a strict export has found; None where the export was not strict.
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
