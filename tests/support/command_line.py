"""Runs the command line: in this process as a rule, which spares an import of torch, or as it was installed."""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from exploy.cli.main import main

ROOT = Path(__file__).parents[2]
EXPLOY = Path(sys.executable).with_name("exploy")
FACTORIES = "tests.support.factories"
_SHARED = (f"{ROOT}/src", f"{ROOT}/tests", f"{ROOT}/benchmarks", "/site-packages/", os.path.dirname(os.__file__))


@dataclass(frozen=True)
class Result:
    """What a command printed, and how it exited."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: Any, folder: Path = ROOT, encoding: str = "utf-8", **environment: str) -> Result:
    """Run a command in this process, from a folder and without a terminal."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2)]
    with (
        _as_a_process(folder, ["exploy", *map(str, arguments)], environment),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
    ):
        code = _exit_code()
    printed = [stream.buffer.getvalue().decode(encoding) for stream in streams]
    return Result(code, *printed)


def run_installed(*arguments: Any, folder: Path = ROOT, **environment: str) -> Result:
    """Run a command in a process of its own, through the entry point that pip has made."""
    done = subprocess.run(
        [str(EXPLOY), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def assert_fails(result: Result, message: str) -> None:
    """One line that says what is wrong, and the exit code for that."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1, result.stderr
    assert message in result.stderr, result.stderr


@contextlib.contextmanager
def _as_a_process(folder: Path, argv: list[str], environment: dict[str, str]) -> Iterator[None]:
    """What a command changes in its process is as it was afterwards."""
    modules, path = dict(sys.modules), list(sys.path)
    with (
        contextlib.chdir(folder),
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, environment),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            yield
        finally:
            sys.path[:] = path
            for name in [name for name, module in sys.modules.items() if _is_users(module)]:
                del sys.modules[name]
            sys.modules.update({name: module for name, module in modules.items() if _is_users(module)})


def _is_users(module: Any) -> bool:
    """Whether a module is one that a command was told to import, and not a part of a package that is shared."""
    file = getattr(module, "__file__", None) or ""
    return file.endswith(".py") and not any(part in file for part in _SHARED)


def _exit_code() -> int:
    try:
        main()
    except SystemExit as stop:
        return 0 if stop.code is None else int(stop.code)
