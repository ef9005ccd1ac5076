"""Loads the compiled library of an archive, if it runs on this machine."""

import ctypes
import tempfile
from pathlib import Path
from typing import Any

from exploy.errors import ContractError
from exploy.runtime.c import machine
from exploy.runtime.c.description import LibraryNeeds

_ADVICE = "Compile it on this machine from the ONNX file: exploy compile"


def load_library(data: bytes, needs: LibraryNeeds) -> ctypes.CDLL:
    """Load a library from its bytes. Whether it may be run has been decided before.

    The file that the system needs for it is private, and is deleted again.

    Raises:
        ContractError: If it is for another system or processor, or cannot be loaded.
    """
    _require_machine(needs)
    with tempfile.TemporaryDirectory(prefix="exploy-") as folder:
        path = Path(folder) / "library"  # the name in the file is not used: it could lead elsewhere
        path.write_bytes(data)
        path.chmod(0o500)
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise ContractError(
                f"The library cannot be loaded: {str(error).replace(folder, '')}. If programs must not be run from "
                f"the temporary folder, choose another by TMPDIR. {_ADVICE}"
            ) from None


def text(library: ctypes.CDLL, function: str) -> str:
    """The text that a function without arguments returns.

    Raises:
        ContractError: If there is no such function.
    """
    found = _function(library, function, ctypes.c_char_p)()
    return bytes(found).decode("ascii", "backslashreplace")


def step_function(library: ctypes.CDLL, name: str) -> Any:
    """A function that takes pointers to ports and returns a status.

    Raises:
        ContractError: If there is no such function.
    """
    return _function(library, name, ctypes.c_int32)


def size(library: ctypes.CDLL, name: str) -> int:
    """The number that a function without arguments returns.

    Raises:
        ContractError: If there is no such function.
    """
    return int(_function(library, name, ctypes.c_size_t)())


def _function(library: ctypes.CDLL, name: str, result: Any) -> Any:
    try:
        function = library[name]
    except AttributeError:
        raise ContractError(f"The library has no function {name!r}. {_ADVICE}") from None
    function.restype = result
    return function


def _require_machine(needs: LibraryNeeds) -> None:
    wanted = (needs.system, needs.architecture)
    here = (machine.system(), machine.architecture())
    if wanted != here:
        theirs, ours = (f"{architecture} on {system}" for system, architecture in (wanted, here))
        raise ContractError(f"The library in the file is for {theirs}, and this is {ours}. {_ADVICE}")
    if needs.level is not None and not machine.has_level(needs.level):
        raise ContractError(
            f"The library in the file needs a processor of the level {needs.level}{machine.instructions(needs.level)}, "
            f"and this one is none. {_ADVICE}"
        )
