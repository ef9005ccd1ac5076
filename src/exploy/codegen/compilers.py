"""Finds a compiler of C, and compiles the files of a program to a library for this machine."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from exploy.errors import CompilerError
from exploy.runtime.c import machine
from exploy.text import printable

FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
_WHOLE_REGISTERS = ("-mprefer-vector-width=512",)  # compilers may choose half of them, which is not faster than AVX2
_LIBRARY = ("-fPIC", "-shared")
_OF_SYSTEM = {
    "linux": ("-s", "-Wl,--build-id=none", "-Wl,-Bsymbolic"),
    "darwin": ("-Wl,-x",),
}
_SUFFIXES = {"linux": ".so", "darwin": ".dylib"}
_PROCESSOR = "EXPLOY_PROCESSOR"
_NAMES = ("cc", "gcc", "clang")
_VERSION = re.compile(r"\d+\.\d+[.\d]*")
_SHOWN_LINES = 5


@dataclass(frozen=True)
class Compiler:
    """A compiler of C.

    Args:
        command: How it is called.
        description: What it is, such as `gcc 12.2.0`.
        is_zig: Whether it is that of the package ziglang, which compiles for this very processor unless it is told.
    """

    command: tuple[str, ...]
    description: str
    is_zig: bool = False

    def options(self, level: str | None) -> list[str]:
        """The options for a library that needs a level of processors, or that runs on all of this architecture."""
        return [*FLAGS, *self._processor(level), *_LIBRARY, *_OF_SYSTEM[machine.system()]]

    def _processor(self, level: str | None) -> list[str]:
        whole = _WHOLE_REGISTERS if level == machine.LEVEL_OF_AVX512 else ()
        if self.is_zig:
            return [f"-mcpu={level.replace('-', '_') if level is not None else 'baseline'}", *whole]
        return [f"-march={level}", *whole] if level is not None else []

    def can(self, level: str) -> bool:
        """Return whether it knows a level of processors."""
        with TemporaryDirectory() as folder:
            (Path(folder) / "empty.c").write_text("extern int none;\n")
            options = [*self._processor(level), "-c", "empty.c", "-o", "empty.o"]
            return _run([*self.command, *options], folder).returncode == 0


@dataclass(frozen=True)
class Library:
    """A compiled library.

    Args:
        name: The name of its file.
        data: Its bytes.
        level: The level of processors that it needs; None if it runs on all of this architecture.
        compiler: What compiled it.
        seconds: How long that took.
    """

    name: str
    data: bytes
    level: str | None
    compiler: str
    seconds: float


def find_compiler() -> Compiler | None:
    """The compiler that the environment variable CC names, else the first of cc, gcc, clang, and the package ziglang.

    Returns:
        None if there is none, or libraries are not compiled on this system.

    Raises:
        CompilerError: If CC names none.
    """
    if machine.system() not in _SUFFIXES:
        return None
    named = os.environ.get("CC")
    if named:
        found = _described(tuple(shlex.split(named)))
        if found is None:
            raise CompilerError(f"CC names no compiler that runs: {named!r}. Correct this environment variable.")
        return found
    return next(_compilers(), None)


def _compilers() -> Iterator[Compiler]:
    for name in _NAMES:
        path = shutil.which(name)
        found = None if path is None else _described((path,))
        if found is not None:
            yield found
    if importlib.util.find_spec("ziglang") is not None:
        found = _described((sys.executable, "-m", "ziglang", "cc"))
        if found is not None:
            yield found


def _described(command: tuple[str, ...]) -> Compiler | None:
    """The compiler behind a command, or None if it does not run."""
    try:
        done = _run([*command, "--version"], None)
    except OSError:
        return None
    version = _VERSION.search(done.stdout)
    if done.returncode or version is None:
        return None
    if "ziglang" in command or Path(command[0]).name == "zig":
        return Compiler(command, f"zig with clang {version[0]}", is_zig=True)
    family = "clang" if "clang" in done.stdout else "gcc" if "Free Software Foundation" in done.stdout else "cc"
    return Compiler(command, f"{family} {version[0]}")


def compile_library(compiler: Compiler, name: str, files: Mapping[str, bytes], units: Sequence[str]) -> Library:
    """Compile the files of a program. The same files and compiler give the same bytes, wherever and whenever.

    Args:
        compiler: The compiler.
        name: The name of the program.
        files: Sources, headers and what they include, by name.
        units: The files that the compiler gets.

    Raises:
        CompilerError: If it does not take them, or EXPLOY_PROCESSOR names no level of this processor.
    """
    level = next(filter(compiler.can, _levels()), None)
    library = f"lib{name}{_SUFFIXES[machine.system()]}"
    with TemporaryDirectory() as folder:
        for file, data in files.items():
            (Path(folder) / file).write_bytes(data)
        without_folder = f"-ffile-prefix-map={folder}=."
        command = [*compiler.command, *compiler.options(level), without_folder, "-o", library, *units, "-lm"]
        started = time.perf_counter()
        done = _run(command, folder)
        seconds = time.perf_counter() - started
        if done.returncode:
            lines = [printable(line) for line in done.stderr.splitlines() if line.strip()][:_SHOWN_LINES]
            raise CompilerError(
                f"{compiler.description} does not compile the program: {' / '.join(lines)}. Choose another compiler by "
                "the environment variable CC."
            )
        data = (Path(folder) / library).read_bytes()
    return Library(library, data, level, compiler.description, seconds)


def _levels() -> tuple[str, ...]:
    """The levels to compile for, the highest first: those of this processor up to the one in EXPLOY_PROCESSOR."""
    mine = machine.levels()
    highest = os.environ.get(_PROCESSOR)
    if not highest:
        return mine
    if highest not in (*mine, machine.ANY_PROCESSOR):
        raise CompilerError(
            f"{_PROCESSOR} names a level that this processor does not have: {highest!r}. Libraries are tested here, so "
            f"choose {', '.join((*mine, machine.ANY_PROCESSOR))}."
        )
    return mine[mine.index(highest) :] if highest in mine else ()


def _run(command: Sequence[str], folder: str | None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, env=environment
    )
