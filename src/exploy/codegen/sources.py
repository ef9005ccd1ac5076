"""All files of a program as C, and the digest by which they know each other."""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from exploy.codegen.contract_source import contract_text
from exploy.codegen.header import header_text
from exploy.codegen.program import Program
from exploy.codegen.selftest_source import selftest_text
from exploy.codegen.source import source_text
from exploy.codegen.weights_source import weights_files
from exploy.contract import NO_DIGEST, Contract

BACKEND = "c"


@dataclass(frozen=True)
class Sources:
    """The files of a program.

    Args:
        program: The program.
        contract: What the archive says about itself, with the digest of the program, and not yet its own.
        files: Header, sources and weights, by name.
    """

    program: Program
    contract: Contract
    files: Mapping[str, bytes]

    @property
    def units(self) -> list[str]:
        """The files that a compiler gets."""
        return [name for name in self.files if name.endswith(".c")]


def write_sources(program: Program, *, as_numbers: bool = False) -> Sources:
    """Write the files of a program.

    The digest of the program is that of all files but `NAME_contract.c`, with zeros in its place in the header. So the
    same program has the same digest on another day.

    Args:
        program: The program.
        as_numbers: Write weights as numbers however many there are.

    Raises:
        LoweringError: If the trace of the contract is not one of these ports.
    """
    name = program.name
    files = {
        f"{name}.h": header_text(program, NO_DIGEST).encode(),
        f"{name}.c": source_text(program).encode(),
        **weights_files(program, as_numbers=as_numbers),
        f"{name}_selftest.c": selftest_text(program).encode(),
    }
    digest = _digest(files)
    contract = dataclasses.replace(program.contract, backend=BACKEND, program=digest, digest=NO_DIGEST)
    files[f"{name}.h"] = header_text(program, digest).encode()
    files[f"{name}_contract.c"] = contract_text(name, contract).encode()
    return Sources(program, contract, files)


def _digest(files: Mapping[str, bytes]) -> str:
    result = hashlib.sha256()
    for name, data in files.items():
        result.update(f"{name}\0{len(data)}\0".encode())
        result.update(data)
    return result.hexdigest()
