"""Packs the files of a program, with its library, into one sealed archive."""

import io
import zipfile
from collections.abc import Mapping

from exploy.codegen.compilers import Library
from exploy.codegen.sources import Sources
from exploy.runtime.archives.archive import PLAIN, seal
from exploy.runtime.c import machine
from exploy.runtime.c.description import FILE, Description, LibraryNeeds, StepPorts

SUFFIX = ".c.zip"
_PACKED = (".c", ".h")


def archive_bytes(sources: Sources, library: Library | None) -> bytes:
    """The bytes of the archive. The same files give the same bytes.

    Args:
        sources: The files of the program.
        library: The compiled library; None for sources alone.

    Raises:
        ContractError: If a file of this archive would be refused.
    """
    name = sources.program.name
    members = {**sources.files, FILE: description(sources, library).to_json().encode()}
    if library is not None:
        members[library.name] = library.data
    return seal(_zip(name, members), sources.contract, PLAIN)


def folder_files(sources: Sources, library: Library | None) -> dict[str, bytes]:
    """The same files for a folder, by name, with the contract as `contract.json`. Nothing seals a folder."""
    files = {**sources.files, FILE: description(sources, library).to_json().encode()}
    files |= {} if library is None else {library.name: library.data}
    return files | {PLAIN: f"{sources.contract.to_json()}\n".encode()}


def description(sources: Sources, library: Library | None) -> Description:
    """What those who load the library need to know."""
    program = sources.program
    steps = {
        name: StepPorts(tuple(item.name for item in step.inputs), tuple(item.name for item in step.outputs))
        for name, step in program.steps.items()
    }
    needs = None
    if library is not None:
        needs = LibraryNeeds(library.name, machine.system(), machine.architecture(), library.level, library.compiler)
    return Description(program.name, str(sources.contract.program), steps, needs)


def _zip(folder: str, members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(f"{folder}/{name}")  # with the same date always
            info.external_attr = 0o644 << 16
            method = zipfile.ZIP_DEFLATED if name.endswith(_PACKED) else zipfile.ZIP_STORED
            file.writestr(info, data, compress_type=method)
    return buffer.getvalue()
