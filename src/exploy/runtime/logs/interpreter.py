"""Finds the Python interpreter to start another process with."""

import sys
import sysconfig
from pathlib import Path


def find_interpreter() -> str | None:
    """Return the interpreter of this process, or None if there is none, as in a program that embeds Python.

    `sys.executable` alone will not do: in such a program it may be the program itself, which must not be started twice.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = (Path(sysconfig.get_path("scripts")), Path(sys.base_prefix) / "bin")
    candidates = [Path(sys.executable or ""), *(folder / name for folder in folders)]
    found = (path for path in candidates if "python" in path.name.lower() and path.is_file())
    return None if getattr(sys, "frozen", False) else next(map(str, found), None)
