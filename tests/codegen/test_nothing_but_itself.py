"""Emitted C needs nothing but itself: few functions of the C library, little stack, no heap, no undefined behaviour."""

import math
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from exploy.codegen.program import Program
from exploy.codegen.sources import write_sources
from tests.support.c_compilers import COMPILERS, STRICT, require_tool
from tests.support.c_samples import KINDS, sample, sample_program
from tests.support.c_ticks import Tick, compile_ticks, random_ticks, read_ticks, run_ticks

OF_MEMORY = {"memcpy", "memset", "memmove", "memcmp", "bcmp"}  # clang writes memcmp() == 0 as bcmp() == 0
OF_MATHEMATICS = {f"{name}{kind}" for name in ("sqrt", "floor", "ceil", "rint", "trunc", "fmod") for kind in ("", "f")}
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wdouble-promotion",
    "-Wshadow",
    "-Wcast-qual",
    "-Wcast-align",
    "-Wundef",
    "-Wvla",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wpointer-arith",
    "-Wredundant-decls",
    "-Wwrite-strings",
    "-pedantic",
    "-Werror",
)
LARGEST_STACK = 2048  # bytes of one function, without the outputs that the self-test keeps
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SPECIAL = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40)

each_kind = pytest.mark.parametrize("kind", KINDS[:7])
each_compiler = pytest.mark.parametrize("compiler", COMPILERS)


def compiled(program: Program, folder: Path, compiler: str, flags: Sequence[str]) -> list[Path]:
    """The object files of a program."""
    sources = write_sources(program)
    for name, data in sources.files.items():
        (folder / name).write_bytes(data)
    command = [require_tool(compiler), *STRICT, *flags, "-c", *sources.units]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.o"))


def symbols(objects: Sequence[Path]) -> tuple[set[str], set[str]]:
    """The names that object files need, and those that they define for others."""
    listed = subprocess.run([require_tool("nm"), "-g", *objects], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines() if line and not line.endswith(":")]
    return {row[-1] for row in rows if row[-2] == "U"}, {row[-1] for row in rows if row[-2] != "U"}


@pytest.mark.matrix(14)
@each_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_objects_need_a_few_functions_of_the_c_library(kind: str, compiler: str, tmp_path: Path) -> None:
    needed, defined = symbols(compiled(sample_program(kind), tmp_path, compiler, ("-O2", *WARNINGS)))
    assert needed - defined <= OF_MEMORY | OF_MATHEMATICS
    assert all(name.startswith("policy_") for name in defined)


@each_kind
def test_nothing_that_is_written_to_is_global(kind: str, tmp_path: Path) -> None:
    objects = compiled(sample_program(kind), tmp_path, "gcc", ("-O2",))
    sizes = subprocess.run([require_tool("size"), *objects], capture_output=True, text=True, check=True).stdout
    for row in sizes.splitlines()[1:]:
        _, data, bss = row.split()[:3]
        assert (data, bss) == ("0", "0"), row


@each_kind
def test_functions_use_little_stack(kind: str, tmp_path: Path) -> None:
    compiled(sample_program(kind), tmp_path, "gcc", ("-O2", "-fstack-usage"))
    rows = [line.rsplit("\t", 2) for path in tmp_path.glob("*.su") for line in path.read_text().splitlines()]
    outputs = sum(
        np.dtype(port.dtype).itemsize * math.prod(port.fixed_shape()) for port in sample(kind).contract.outputs
    )
    assert len(rows) > 5
    for function, size, how in rows:
        allowed = LARGEST_STACK + (outputs if function.endswith("policy_selftest") else 0)
        assert int(size) <= allowed and how in ("static", "dynamic,bounded"), f"{function}: {size} bytes, {how}"


def with_special_values(tick: Tick, rng: np.random.Generator) -> Tick:
    inputs = {name: array.copy() for name, array in tick.inputs.items()}
    for array in inputs.values():
        if array.dtype.kind == "f":
            array.reshape(-1)[rng.integers(array.size)] = rng.choice(SPECIAL)
        elif array.dtype.kind in "iu":
            array.reshape(-1)[:] = rng.choice(np.array([np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, 2]))
    return Tick(tick.is_reset, inputs)


@each_kind
def test_sanitizers_find_no_access_outside_and_no_undefined_behaviour(kind: str, tmp_path: Path) -> None:
    """Also for numbers that are not finite, for the largest integers, and after a status."""
    contract, program = sample(kind).contract, sample_program(kind)
    rng = np.random.default_rng(0)
    ticks = list(random_ticks(contract, 60))
    ticks += [with_special_values(tick, rng) for tick in ticks]
    path = compile_ticks(program, tmp_path, require_tool("gcc"), (*STRICT, *SANITIZED))
    assert len(read_ticks(run_ticks(path, program, ticks), program)) == 120


def test_sanitizers_would_find_an_access_outside(tmp_path: Path) -> None:
    """What the test above sees is there to be seen: a loop that goes one element too far ends the program."""
    program = sample_program("demo")
    sources = write_sources(program).files["policy.c"].decode()
    path = compile_ticks(program, tmp_path, require_tool("gcc"), (*STRICT, *SANITIZED))
    assert "exploy_multiply_vector_f32(" in sources
    outside = sources.replace("  state->is_first = true;", "  memset((char *)state + sizeof *state, 0, 1);")
    (tmp_path / "policy.c").write_text(outside)
    command = ["gcc", *STRICT, *SANITIZED, "policy.c", "policy_weights.c", "main.c", "-o", path.name, "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([path], input=b"", capture_output=True, check=False)
    assert done.returncode != 0 and b"AddressSanitizer" in done.stderr
