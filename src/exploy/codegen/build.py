"""Builds a program from an ONNX file: writes it as C, compiles it, and runs its self-test before anybody gets it."""

import ctypes
import dataclasses
from dataclasses import dataclass

from exploy.codegen.archive import archive_bytes, folder_files
from exploy.codegen.compilers import Compiler, Library, compile_library
from exploy.codegen.program import write_program
from exploy.codegen.sources import Sources, write_sources
from exploy.codegen.step_source import Places
from exploy.contract import Contract, Port
from exploy.errors import VerificationError
from exploy.runtime.archives import archive
from exploy.runtime.c import machine
from exploy.runtime.c.description import LibraryNeeds
from exploy.runtime.c.execution import open_steps
from exploy.runtime.c.library import load_library, size, step_function
from exploy.runtime.onnx.outline import Outline
from exploy.runtime.selftest import replay_trace


@dataclass(frozen=True)
class Built:
    """A program as C.

    Args:
        sources: Its files.
        library: Its library; None if there is no compiler.
        archive: The bytes of the sealed archive.
        ticks: How many ticks of the golden trace the library has computed as torch did; 0 if the file has no trace or
            there is no library: then nobody has compared anything.
    """

    sources: Sources
    library: Library | None
    archive: bytes
    ticks: int

    def files(self) -> dict[str, bytes]:
        """The files for a folder, by name."""
        return folder_files(self.sources, self.library)


def build(
    data: bytes,
    contract: Contract,
    name: str,
    compiler: Compiler | None,
    *,
    outline: Outline | None = None,
    places: Places | None = None,
    as_numbers: bool = False,
) -> Built:
    """Build a program. With a compiler and a trace, the library computes the trace before this returns.

    Open sizes of ports become 1.

    Args:
        data: The bytes of an ONNX file.
        contract: What it says about itself.
        name: The name of the program.
        compiler: The compiler; None for sources alone.
        outline: The parsed bytes, if they were parsed already.
        places: The lines of the environment that operators come from, by the names of operators.
        as_numbers: Write weights as numbers however many there are.

    Raises:
        LoweringError: If C code cannot be written for the file.
        CompilerError: If the compiler does not take the code.
        VerificationError: If the library computes other values than torch did; the message names tick and output.
    """
    program = write_program(data, with_fixed_sizes(contract), name, outline=outline, places=places)
    sources = write_sources(program, as_numbers=as_numbers)
    if compiler is None:
        return Built(sources, None, archive_bytes(sources, None), 0)
    library = compile_library(compiler, program.name, sources.files, sources.units)
    made = archive_bytes(sources, library)
    return Built(sources, library, made, _tested(made, sources, library))


def with_fixed_sizes(contract: Contract) -> Contract:
    """The contract for one robot: 1 for all sizes that are chosen at load."""
    inputs, outputs = (tuple(map(_fixed, ports)) for ports in (contract.inputs, contract.outputs))
    return dataclasses.replace(contract, inputs=inputs, outputs=outputs)


def _fixed(port: Port) -> Port:
    return dataclasses.replace(port, shape=port.fixed_shape())


def _tested(made: bytes, sources: Sources, library: Library) -> int:
    """Run the trace, as a controller does and as the library itself does."""
    contract = archive.read_sealed(made, "The archive")
    steps = open_steps(made, contract)
    if contract.trace is None:
        return 0
    try:
        ticks = replay_trace(contract, steps)
    except VerificationError as error:
        raise VerificationError(f"The compiled C is wrong, so nothing was written. {error}") from None
    failed = run_selftest(library, sources.program.name)
    if failed:
        what = f"{sources.program.name}_selftest() fails at tick {failed}"
        raise VerificationError(f"The compiled C is wrong, so nothing was written: {what}.")
    return ticks


def run_selftest(library: Library, name: str) -> int:
    """What the self-test in a library returns."""
    needs = LibraryNeeds(library.name, machine.system(), machine.architecture(), library.level, library.compiler)
    loaded = load_library(library.data, needs)
    state = ctypes.create_string_buffer(size(loaded, f"{name}_state_bytes"))
    return int(step_function(loaded, f"{name}_selftest")(state))
