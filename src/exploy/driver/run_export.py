"""The steps of every export, in order: capture, lower, describe, verify, write."""

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
    """The source of an export: an environment with its actor, or a policy without environment."""

    @property
    def decimation(self) -> int | None:
        """Simulation steps in a policy step; None if there is only one rate."""

    def prepared(self) -> contextlib.AbstractContextManager[None]:
        """Prepare the source for the export. Everything is undone afterwards; more is undone if the export fails."""

    def capture(self) -> Program:
        """Capture the program; raise if it cannot be exported."""

    def program_for_trace(self, program: Program) -> Program:
        """The program to record the trace from, with a batch size of 1 if the file has a dynamic one."""

    def describe(self, program: Program, artifact: Artifact, backend: str) -> Contract:
        """Build the contract of the file, without a trace."""

    def metadata(self, contract: Contract) -> dict[str, str]:
        """The documented metadata keys."""

    def verify(self, program: Program, data: bytes) -> None:
        """Raise if the file computes wrong results."""


@dataclass(frozen=True)
class WrittenFile:
    """A written file, and the program that it was made from."""

    path: Path
    contract: Contract
    program: Program


def run_export(
    source: ExportSource, backend: Backend, target: Path, *, golden_trace: bool = True, verbose: bool = False
) -> WrittenFile:
    """Export a source. Files are only written if all checks pass.

    Args:
        source: The environment or policy to export.
        backend: Creates the file.
        target: The path of the file.
        golden_trace: Store some steps in the file, for its self-test.
        verbose: Print a summary of the file.

    Raises:
        ExployError: A subclass for each kind of error.
    """
    with ONE_AT_A_TIME, paused_garbage_collection(), source.prepared():
        program = source.capture()
        artifact = backend.for_file(target).lower(program, source.decimation)
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
            with replacing(target.parent / "debug" / f"{stem}{suffix}", durable=False) as temporary_debug:
                temporary_debug.write_bytes(contents)
