"""The backends for torch: a `.pt2` archive of exported programs, or of libraries compiled from them."""

import contextlib
import importlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from exploy.backends.artifact import Artifact
from exploy.backends.backend import Backend
from exploy.backends.interface import Interface, interface_of
from exploy.backends.torch.maker_traces import without_folders
from exploy.backends.torch.programs import StepProgram, step_programs
from exploy.capture.program import Program
from exploy.capture.quiet_loggers import quiet_loggers
from exploy.contract import Contract
from exploy.errors import LoweringError
from exploy.runtime.archives import archive
from exploy.runtime.pt2.steps import SIGNATURES, TorchExecution

_LINE_TABLES = "enable_line_tables"
_SOURCES = (".cpp", ".h")  # of the libraries; they name the folders of the compiler
_LIBRARIES = (".so", ".dylib")


class TorchExportBackend(TorchExecution, Backend):
    """Writes `.pt2` files with exported programs, which torch runs operator by operator."""

    suffix = ".pt2"

    def lower(self, program: Program, decimation: int | None) -> Artifact:
        """Export both steps.

        Raises:
            LoweringError: If torch cannot export them.
        """
        interface = interface_of(program)
        return TorchArtifact(interface, step_programs(program, interface))


class AotInductorBackend(TorchExportBackend):
    """Writes `.pt2` files with libraries that AOTInductor compiles for this processor type. They link to libtorch."""

    name = "aot_inductor"

    def lower(self, program: Program, decimation: int | None) -> Artifact:
        """Export both steps. They are compiled when the file is written, which needs a C++ compiler and takes seconds.

        Raises:
            LoweringError: If torch cannot export them.
        """
        interface = interface_of(program)
        return CompiledArtifact(interface, step_programs(program, interface))


class TorchArtifact(Artifact):
    """The exported program of each step."""

    def __init__(self, interface: Interface, programs: dict[str, StepProgram]):
        super().__init__(interface)
        self._programs = programs

    def file(self, contract: Contract, metadata: Mapping[str, str]) -> bytes:
        """The archive with the programs, the inputs and outputs of each step, and the contract."""
        signatures = {name: {"inputs": item.inputs, "outputs": item.outputs} for name, item in self._programs.items()}
        package = importlib.import_module("torch.export.pt2_archive._package").package_pt2
        buffer = io.BytesIO()
        with quiet_loggers(), self._contents() as contents:
            package(buffer, **contents, extra_files={SIGNATURES: json.dumps(signatures)})
        return archive.seal(buffer.getvalue(), contract)

    @contextlib.contextmanager
    def _contents(self) -> Iterator[dict[str, Any]]:
        for item in self._programs.values():
            item.exported._example_inputs = None  # would be stored as a pickle
        yield {"exported_programs": {name: item.exported for name, item in self._programs.items()}}


class CompiledArtifact(TorchArtifact):
    """The compiled library of each step."""

    @contextlib.contextmanager
    def _contents(self) -> Iterator[dict[str, Any]]:
        inductor = importlib.import_module("torch._inductor")
        files = {}
        with tempfile.TemporaryDirectory() as folder:
            for name, item in self._programs.items():
                options = {"aot_inductor.package": True, "aot_inductor.output_path": f"{folder}/{name}"}
                if hasattr(inductor.config.aot_inductor, _LINE_TABLES):
                    options[f"aot_inductor.{_LINE_TABLES}"] = False
                try:
                    with torch.no_grad():
                        module = item.exported.module(check_guards=False)
                        made = inductor.aot_compile(module, item.exported.example_inputs[0], options=options)
                except Exception as error:
                    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                    raise LoweringError(
                        f"AOTInductor cannot compile the program: {reason}. It needs a C++ compiler (g++)."
                    ) from error
                files[name] = [path for path in made if not path.endswith(_SOURCES)]
                for library in (Path(path) for path in files[name] if path.endswith(_LIBRARIES)):
                    library.write_bytes(without_folders(library.read_bytes(), [folder]))
            yield {"aoti_files": files}
