"""The backend for C: an archive with sources, and with a library that has computed the golden trace."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from exploy.backends.artifact import Artifact
from exploy.backends.backend import Backend
from exploy.backends.onnx.backend import OnnxArtifact, OnnxBackend
from exploy.capture.program import Program
from exploy.codegen.archive import SUFFIX
from exploy.codegen.build import build
from exploy.codegen.compilers import Compiler, find_compiler
from exploy.codegen.names import in_comment
from exploy.contract import Contract
from exploy.errors import BackendError, CompilerError, LoweringError
from exploy.runtime.c.execution import CExecution

_PLACE = re.compile(r"(?P<file>[^/\\:]+):(?P<line>\d+) \(in (?P<function>[^)]+)\)$")


class CBackend(CExecution, Backend):
    """Writes `.c.zip` files, for this kind of machine.

    Args:
        program_name: What all names of the program start with; the name of the file if None.

    Raises:
        BackendError: If it is no text.
    """

    suffix = SUFFIX

    def __init__(self, program_name: str | None = None):
        if program_name is not None and not (isinstance(program_name, str) and program_name):
            raise BackendError(f"program_name must be a name such as 'walk', got {program_name!r}.")
        self.program_name = program_name

    def for_file(self, path: Path) -> Self:
        """Name the program after its file, unless it has a name."""
        return self if self.program_name is not None else type(self)(path.name.removesuffix(SUFFIX) or None)

    def lower(self, program: Program, decimation: int | None) -> Artifact:
        """Lower a program to ONNX, which the C is written from when the file is written.

        Raises:
            CompilerError: If there is no compiler of C, without which nobody could run the self-test.
            LoweringError: If the program cannot be lowered, or is for an open number of robots.
        """
        compiler = find_compiler()
        if compiler is None:
            raise CompilerError(
                "The backend 'c' needs a compiler of C on Linux or macOS, and none of cc, gcc, clang and the package "
                "ziglang is installed: pip install ziglang. To write sources alone, which nobody has run, export to "
                "ONNX, then: exploy compile policy.onnx -o folder/"
            )
        if program.batch_axes:
            raise LoweringError(
                "The backend 'c' writes programs for one robot, and this policy is for any number of them. Leave out "
                "dynamic_batch, or use the backend 'onnx'."
            )
        return CArtifact(OnnxBackend().lower(program, decimation), compiler, self.program_name or "policy")


class CArtifact(Artifact):
    """A program lowered to ONNX, and what is needed to build it."""

    def __init__(self, lowered: OnnxArtifact, compiler: Compiler, name: str):
        super().__init__(lowered.interface)
        self._lowered = lowered
        self._compiler = compiler
        self._name = name

    def file(self, contract: Contract, metadata: Mapping[str, str]) -> bytes:
        """The archive, once its library has computed the golden trace.

        Raises:
            LoweringError: If C code cannot be written for an operator, with its line; or the compiler refuses the code.
            VerificationError: If the library computes other values than torch; the message names tick and output.
        """
        data = self._lowered.file(contract, metadata)
        places = {name: without_folder(place) for name, place in self._lowered.places.items()}
        return build(data, contract, self._name, self._compiler, places=places).archive


def without_folder(place: str) -> str:
    """A line of code as files may tell it: `file.py:12 in f`. Folders would tell about their maker's machine."""
    found = _PLACE.search(place)
    return in_comment(f"{found['file']}:{found['line']} in {found['function']}") if found is not None else ""
