"""Random ticks for compiled programs, and a program of C that computes them from bytes to bytes."""

import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from exploy.codegen.program import Program
from exploy.codegen.sources import write_sources
from exploy.contract import Contract, Port
from exploy.runtime.engine import Parts
from tests.support.c_programs import FLAGS

RESET_EVERY = 17  # ticks; not a multiple of any decimation, so that episodes also end between two policy steps


@dataclass(frozen=True)
class Tick:
    """What a program is given at a tick.

    Args:
        is_reset: Whether an episode starts.
        inputs: What the robot gives.
    """

    is_reset: bool
    inputs: Mapping[str, np.ndarray]


def random_ticks(contract: Contract, count: int, reset_every: int = RESET_EVERY, seed: int = 0) -> Iterator[Tick]:
    """Random ticks with resets: floats around those of the golden trace, flags and bytes at random."""
    rng = np.random.default_rng(seed)
    known = {} if contract.trace is None else contract.trace.input_arrays()
    for tick in range(count):
        values = {port.name: random_value(port, known.get(port.name), rng) for port in Parts.of(contract).inputs}
        yield Tick(tick % reset_every == 0, values)


def random_value(port: Port, known: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Numbers for an input: floats around those of its trace, flags and bytes at random, other types as in the trace.

    Args:
        port: The input.
        known: What the golden trace gave it, tick by tick; None if there is no trace.
        rng: Random numbers.
    """
    shape, dtype = port.fixed_shape(), np.dtype(port.dtype)
    like = np.zeros(shape, dtype) if known is None else known[rng.integers(len(known))]
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype == np.uint8:
        return rng.integers(0, 256, shape, dtype)
    if dtype.kind != "f":
        return np.array(like)
    result: np.ndarray = (like + rng.normal(scale=0.3, size=shape) * (1 + np.abs(like))).astype(dtype)
    return result


@dataclass(frozen=True)
class Computed:
    """What a program computed at a tick.

    Args:
        status: The status that it ended with.
        outputs: What the robot gets, by port; after a status, whatever is there.
        memories: What is kept for the next tick, by memory.
    """

    status: int
    outputs: Mapping[str, np.ndarray]
    memories: Mapping[str, np.ndarray]


def compile_ticks(program: Program, folder: Path, compiler: str = "gcc", flags: Sequence[str] = FLAGS) -> Path:
    """Compile a program with a main function that computes ticks from standard input to standard output."""
    sources = write_sources(program)
    for name, data in sources.files.items():
        (folder / name).write_bytes(data)
    (folder / "main.c").write_text(_main(program))
    units = [name for name in sources.units if not name.endswith(("_selftest.c", "_contract.c"))]
    command = [compiler, *flags, *units, "main.c", "-o", "ticks", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return folder / "ticks"


def run_ticks(path: Path, program: Program, ticks: Iterable[Tick], **environment: str) -> bytes:
    """Compute ticks; the bytes of all statuses, outputs and memories, in order."""
    given = b"".join(
        bytes([tick.is_reset]) + b"".join(tick.inputs[port.name].tobytes() for port in program.inputs) for tick in ticks
    )
    done = subprocess.run([path], input=given, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def read_ticks(data: bytes, program: Program) -> list[Computed]:
    """What is in the bytes that `run_ticks()` returns."""
    results, position = [], 0

    def array(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        nonlocal position
        count = int(np.prod(shape, dtype=np.int64))
        found = np.frombuffer(data, dtype, count, position).reshape(shape)
        position += count * dtype.itemsize
        return found

    while position < len(data):
        (status,) = struct.unpack_from("=i", data, position)
        position += 4
        outputs = {port.name: array(port.fixed_shape(), np.dtype(port.dtype)) for port in program.outputs}
        memories = {item.name: array(item.output.shape, item.output.dtype) for item in program.memories}
        results.append(Computed(status, outputs, memories))
    return results


def _main(program: Program) -> str:
    """The main function. Everything is in memory of its own, so that sanitizers see each access outside of it."""
    name = program.name
    reads = [program.ports[port.name] for port in program.inputs]
    given = "".join(_transfer("fread", f"in->{item.field}", item.size, "stdin") for item in reads)
    ports = [program.ports[port.name] for port in program.outputs]
    got = "".join(_transfer("fwrite", f"out->{item.field}", item.size, "stdout") for item in ports)
    got += "".join(
        _transfer("fwrite", f"state->memory.{item.field}", item.output.size, "stdout") for item in program.memories
    )
    return f"""\
#include "{name}.h"
#include <stdio.h>
#include <stdlib.h>

static void all(size_t done, size_t wanted)
{{
  if (done != wanted) {{
    exit(2);
  }}
}}

int main(void)
{{
  {name}_state *state = malloc(sizeof *state);
  {name}_inputs *in = calloc(1, sizeof *in);
  {name}_outputs *out = calloc(1, sizeof *out);
  unsigned char is_reset = 0;
  {name}_init(state);
  while (fread(&is_reset, 1, 1, stdin) == 1) {{
    if (is_reset) {{
      {name}_init(state);
    }}
{given}    const int32_t status = (int32_t){name}_tick(state, in, out);
    all(fwrite(&status, sizeof status, 1, stdout), 1);
{got}  }}
  free(state);
  free(in);
  free(out);
  return 0;
}}
"""


def _transfer(function: str, field: str, count: int, stream: str) -> str:
    return f"    all({function}({field}, sizeof *{field}, {count}, {stream}), {count});\n"
