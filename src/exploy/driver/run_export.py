"""The order of an export, for environments and policies alike: captured, lowered, described, checked, written."""

import contextlib
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from exploy.atomic_write import replacing
from exploy.backends.artifact import Artifact
from exploy.backends.backend import Backend
from exploy.capture.capture import ONE_AT_A_TIME
from exploy.capture.garbage_collection import paused_garbage_collection
from exploy.capture.program import Program
from exploy.contract import Contract
from exploy.description.summary import summary
from exploy.verify.golden_trace import record_trace


class ExportSource(Protocol):
    """What becomes a file: an environment with its actor, or a policy alone."""

    @property
    def decimation(self) -> int | None:
        """Simulation steps in a policy step; None where there is one rate."""

    def prepared(self) -> contextlib.AbstractContextManager[None]:
        """Everything that must hold while it is exported; undone afterwards, more of it where the export fails."""

    def capture(self) -> Program:
        """The program, having refused what no file can hold."""

    def program_for_trace(self, program: Program) -> Program:
        """The program that the trace is recorded from: for one robot."""

    def describe(self, program: Program, artifact: Artifact, backend: str) -> Contract:
        """What the file says about itself, without a trace."""

    def metadata(self, contract: Contract) -> dict[str, str]:
        """The documented metadata keys."""

    def verify(self, program: Program, data: bytes) -> None:
        """Refuse a file that does not compute what it should."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written, and the program that it was made from."""

    path: Path
    contract: Contract
    program: Program


def run_export(
    source: ExportSource, backend: Backend, target: Path, *, golden_trace: bool = True, verbose: bool = False
) -> WrittenFile:
    """Export; nothing is written, and no old file changed, unless all checks pass.

    Args:
        source: What becomes a file.
        backend: Makes the file.
        target: Its path.
        golden_trace: Store some steps by which the file can test itself.
        verbose: Print a summary of the file.

    Raises:
        ExployError: One of its kinds for each thing that can be wrong.
    """
    with ONE_AT_A_TIME, paused_garbage_collection(), source.prepared():
        program = source.capture()
        artifact = backend.lower(program, source.decimation)
        contract = source.describe(program, artifact, backend.name)
        if golden_trace:
            trace = record_trace(source.program_for_trace(program), contract)
            contract = dataclasses.replace(contract, trace=trace)
        data = artifact.file(contract, source.metadata(contract))
        source.verify(program, data)
        _write(target, data, artifact.debug_files())
    if verbose:
        rates = f"policy step every {source.decimation} simulation steps" if source.decimation else "one rate"
        print(f"{target} ({len(data) / 1024:.1f} KiB), {rates}\n{summary(contract)}")
    return WrittenFile(target, contract, program)


def _write(target: Path, data: bytes, debug_files: dict[str, bytes]) -> None:
    stem = target.name.removesuffix(target.suffix)
    with replacing(target) as temporary:
        temporary.write_bytes(data)
        for suffix, contents in debug_files.items():
            with replacing(target.parent / "debug" / f"{stem}{suffix}") as temporary_debug:
                temporary_debug.write_bytes(contents)
