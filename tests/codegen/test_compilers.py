"""Compilers are found and said, and the same files give the same bytes."""

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from exploy.codegen.compilers import Compiler, compile_library, find_compiler
from exploy.errors import CompilerError
from exploy.runtime.c import machine

SOURCE = {"a.c": b'#include "a.h"\nint f(void)\n{\n  return ONE;\n}\n', "a.h": b"#define ONE 1\nint f(void);\n"}
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("EXPLOY_PROCESSOR", raising=False)


def fake(folder: Path, name: str, text: str) -> Path:
    """A command that prints a text."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@needs_gcc
def test_a_compiler_is_found_and_says_what_it_is() -> None:
    found = find_compiler()
    assert found is not None and found.description.startswith(("gcc ", "clang "))
    assert not any(os.sep in word for word in found.description.split())


def test_the_environment_variable_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{fake(tmp_path, 'mine', 'Alpine clang version 17.0.5')} --quiet")
    found = find_compiler()
    assert found is not None and found.description == "clang 17.0.5" and found.command[1:] == ("--quiet",)
    monkeypatch.setenv("CC", str(tmp_path / "missing"))
    with pytest.raises(CompilerError, match="CC names no compiler that runs"):
        find_compiler()


def test_the_first_that_runs_is_taken_and_none_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)  # cannot be found
    assert find_compiler() is None
    (fake(tmp_path, "cc", "x")).write_text("#!/bin/sh\nexit 1\n")
    fake(tmp_path, "clang", "clang version 19.1.0")
    found = find_compiler()
    assert found is not None and found.description == "clang 19.1.0"


def test_zig_is_taken_from_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ziglang"
    package.mkdir()
    (package / "__main__.py").write_text("print('clang version 22.1.8')\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    found = find_compiler()
    assert found == Compiler((sys.executable, "-m", "ziglang", "cc"), "zig with clang 22.1.8", is_zig=True)
    assert "-mcpu=x86_64_v3" in found.options("x86-64-v3") and "-mcpu=baseline" in found.options(None)
    assert {"-mcpu=x86_64_v4", "-mprefer-vector-width=512"} <= set(found.options("x86-64-v4"))


def test_on_other_systems_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "system", lambda: "windows")
    assert find_compiler() is None


@needs_gcc
def test_the_same_files_give_the_same_bytes_without_a_trace_of_the_folder() -> None:
    compiler = find_compiler()
    assert compiler is not None
    first, second = (compile_library(compiler, "a", SOURCE, ["a.c"]) for _ in range(2))
    assert first.data == second.data and first.name in ("liba.so", "liba.dylib")
    assert b"/tmp" not in first.data and first.compiler == compiler.description


@needs_gcc
def test_the_level_is_that_of_the_processor_and_one_that_the_compiler_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = find_compiler()
    assert compiler is not None
    mine = machine.levels()
    known = compile_library(compiler, "a", SOURCE, ["a.c"]).level
    assert known in (*mine, None)
    for levels, taken in ((("x86-64-v99",), None), ((), None), (("x86-64-v99", *mine), known)):
        monkeypatch.setattr(machine, "levels", lambda levels=levels: levels)
        assert compile_library(compiler, "a", SOURCE, ["a.c"]).level == taken


@needs_gcc
def test_a_library_can_be_made_for_lesser_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = find_compiler()
    assert compiler is not None
    monkeypatch.setattr(machine, "levels", lambda: ("x86-64-v99", "x86-64-v3", "x86-64-v2"))
    monkeypatch.setattr(Compiler, "can", lambda self, level: level != "x86-64-v3")
    monkeypatch.setattr(Compiler, "_processor", lambda self, level: [])
    for chosen, level in (("x86-64-v99", "x86-64-v99"), ("x86-64-v3", "x86-64-v2"), ("any", None), ("", "x86-64-v99")):
        monkeypatch.setenv("EXPLOY_PROCESSOR", chosen)
        assert compile_library(compiler, "a", SOURCE, ["a.c"]).level == level
    monkeypatch.setenv("EXPLOY_PROCESSOR", "x86-64-v4")
    with pytest.raises(CompilerError, match=r"have: 'x86-64-v4'.*choose x86-64-v99, x86-64-v3, x86-64-v2, any"):
        compile_library(compiler, "a", SOURCE, ["a.c"])


@needs_gcc
def test_what_a_compiler_refuses_is_said() -> None:
    compiler = find_compiler()
    assert compiler is not None
    with pytest.raises(CompilerError, match=r"does not compile the program: .*a\.c:1.*environment variable CC"):
        compile_library(compiler, "a", {"a.c": b"nonsense\n"}, ["a.c"])
