"""Compares programs in C with onnxruntime, and with reading their weights once.

The C library is called bare, by ctypes. onnxruntime runs the same file with buffers that are bound once, and one
thread. Neither feeds memories back. A loop in C, compiled with the same flags, reads as many weights. All are measured
in interleaved rounds in one process, and loaded anew several times, since times depend on where in memory the weights
come to lie. The last tables show `Controller.tick()`, and how times grow with parameters.

    python -m benchmarks.c_programs
"""

import ctypes
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.c_files import FILES, Program, network_of, programs
from exploy.codegen.compilers import Compiler, compile_library, find_compiler
from exploy.contract import Port, PortKind
from exploy.runtime import Controller
from exploy.runtime.archives import archive
from exploy.runtime.c import machine
from exploy.runtime.c.description import LibraryNeeds
from exploy.runtime.c.execution import open_steps
from exploy.runtime.c.library import load_library
from exploy.runtime.c.steps import CStep
from exploy.runtime.onnx.session import open_session

LOADS, ROUNDS, WARM_UP, CALLS = 7, 8, 5, 30
WIDTHS = (72, 144, 288, 530, 960, 1700, 3100)  # from 10 thousand to 10 million parameters
FIXED_COST = 4  # times that of the smallest network: below, what a call costs by itself counts
C, RUNTIME, READING = "C", "onnxruntime", "reading"
POLICY_STEP, SUB_STEP = "policy step", "sub-step"
_READER = """\
#include <stddef.h>

float read_weights(size_t count, const float *weights);

float read_weights(size_t count, const float *weights)
{
  float sums[64] = {0};
  for (size_t i = 0; i + 64 <= count; i += 64) {
    for (size_t j = 0; j < 64; j++) {
      sums[j] += weights[i + j];
    }
  }
  float sum = 0;
  for (size_t j = 0; j < 64; j++) {
    sum += sums[j];
  }
  return sum;
}
"""

Call = Callable[[], object]
Times = Mapping[str, np.ndarray]  # microseconds of each candidate


def measure(load: Callable[[], Mapping[str, Call]], loads: int = LOADS) -> Times:
    """Microseconds of all calls, from interleaved rounds, after which all candidates are loaded anew."""
    times: dict[str, list[int]] = {}
    clock = time.perf_counter_ns
    for _ in range(loads):
        candidates = load()
        for name in [*candidates] * ROUNDS:
            call, mine = candidates[name], times.setdefault(name, [])
            for _ in range(WARM_UP):  # the caches hold data of the previous candidate
                call()
            for _ in range(CALLS):
                started = clock()
                call()
                mine.append(clock() - started)
    return {name: np.array(values) / 1e3 for name, values in times.items()}


def example(port: Port, phase: int) -> np.ndarray:
    """A value of a port at a tick of the policy period."""
    shape, dtype = port.fixed_shape(), np.dtype(port.dtype)
    if port.kind == PortKind.STEP_COUNT:
        return np.full(shape, phase, dtype)
    if dtype.kind == "f":
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)
    return np.random.default_rng(0).integers(0, 2 if dtype.kind != "u" else 256, shape).astype(dtype)


def arrays_of(program: Program, phase: int) -> dict[str, np.ndarray]:
    """Values for all ports at a tick of the policy period."""
    contract = program.file.contract
    outputs = {port.name: np.zeros(port.fixed_shape(), port.dtype) for port in contract.outputs}
    return {port.name: example(port, phase) for port in contract.inputs} | outputs


def step_in_c(program: Program, phase: int) -> Call:
    """A step of the library, called bare."""
    contract = archive.read_sealed(program.built.archive, "The archive")
    runner = open_steps(program.built.archive, contract)[phase > 0]
    assert isinstance(runner, CStep)
    arrays = arrays_of(program, phase)
    return partial(runner.function, runner.bind(arrays, arrays))  # the binding keeps the arrays


def step_in_onnxruntime(program: Program, phase: int) -> Call:
    """The same tick of the file by onnxruntime, on arrays that are bound once."""
    session = open_session(program.file.data)
    arrays = arrays_of(program, phase)
    binding = session.io_binding()
    for binds, items in ((binding.bind_input, session.get_inputs()), (binding.bind_output, session.get_outputs())):
        for item in items:
            array = arrays[item.name]
            binds(item.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def run(kept: object = arrays) -> None:
        session.run_with_iobinding(binding)

    return run


def reader(compiler: Compiler, parameters: int) -> Callable[[], Call]:
    """What loads a loop that reads as many numbers as a file has parameters, mapped from a file like those."""
    made = compile_library(compiler, "reader", {"reader.c": _READER.encode()}, ["reader.c"])
    needs = LibraryNeeds(made.name, machine.system(), machine.architecture(), made.level, made.compiler)

    def load() -> Call:
        function = load_library(made.data, needs).read_weights
        function.restype = ctypes.c_float
        with tempfile.TemporaryFile() as file:
            np.random.default_rng(0).standard_normal(parameters, np.float32).tofile(file)
            numbers = np.memmap(file, np.float32, "c")
        pointer = ctypes.c_void_p(numbers.ctypes.data)
        pointer.kept = numbers  # type: ignore[attr-defined]
        return partial(function, ctypes.c_size_t(parameters), pointer)

    return load


def times_of_steps(program: Program, compiler: Compiler, loads: int) -> dict[str, Times]:
    """Times of the steps of a program."""
    read = reader(compiler, program.parameters)

    def load(phase: int) -> dict[str, Call]:
        both = {C: step_in_c(program, phase), RUNTIME: step_in_onnxruntime(program, phase)}
        return both if phase else both | {READING: read()}

    found = {POLICY_STEP: measure(partial(load, 0), loads)}
    if program.file.contract.decimation > 1:
        found[SUB_STEP] = measure(partial(load, 1), loads)
    return found


def times_of_ticks(program: Program, loads: int) -> dict[str, Times]:
    """Times of `Controller.tick()` for policy steps and sub-steps, with the default guards."""
    decimation, clock = program.file.contract.decimation, time.perf_counter_ns
    times: dict[str, dict[str, list[int]]] = {step: {C: [], RUNTIME: []} for step in (POLICY_STEP, SUB_STEP)}
    for _ in range(loads):
        controllers = {C: Controller.load(program.built.archive, allow_code=True), RUNTIME: Controller(program.file)}
        for controller in controllers.values():
            for array in controller.inputs.values():
                array[...] = 0
        for name in [*controllers] * ROUNDS:
            tick = controllers[name].tick
            for number in range(decimation * (WARM_UP + CALLS)):
                started = clock()
                tick()
                duration = clock() - started
                if number >= decimation * WARM_UP:
                    times[SUB_STEP if number % decimation else POLICY_STEP][name].append(duration)
    return {step: {name: np.array(found) / 1e3 for name, found in both.items()} for step, both in times.items()}


def exponent(parameters: Sequence[float], times: Sequence[float], fixed_cost: float = 0) -> float:
    """The exponent of times against parameters: the slope of a line through their logarithms, by least squares.

    Networks that take less than `fixed_cost` times as long as the fastest one are left out.
    """
    points = [point for point in zip(parameters, times, strict=True) if point[1] >= fixed_cost * min(times)]
    sizes, durations = np.log(np.array(points)).T
    return float(np.polyfit(sizes, durations, 1)[0])


def median(times: Times, name: str) -> float:
    return float(np.median(times[name]))


def add_step(table: Table, label: str, step: str, times: Times, program: Program | None) -> None:
    """Add the row of a step."""
    mine, theirs = median(times, C), median(times, RUNTIME)
    row = [label, step, f"{mine:.1f}", f"{theirs:.1f}", f"{mine / theirs:.2f}"]
    if READING in times:
        row += [f"{median(times, READING):.1f}", f"{mine / median(times, READING):.2f}"]
    else:
        row += ["", ""]
    if program is not None and program.built.library is not None:
        library = program.built.library
        row += [f"{program.parameters / 1e3:.0f} k", f"{library.seconds:.1f} s", f"{len(library.data) / 1024:.0f} KiB"]
    table.add_row(*row)


def compare(compiler: Compiler, folder: Path, loads: int, console: Console) -> None:
    """Print the table of programs, and `Controller.tick()` of the first one."""
    table = Table("p50 µs", "", "C", RUNTIME, "ratio", READING, "ratio", "parameters", "compiled in", "library")
    for number, (name, program) in enumerate(programs(FILES, folder, compiler)):
        steps = times_of_steps(program, compiler, loads)
        for step, times in steps.items():
            add_step(table, name if step == POLICY_STEP else "", step, times, program if step == POLICY_STEP else None)
        if number == 0:
            ticks = times_of_ticks(program, loads)
    for step, times in ticks.items():
        add_step(table, "Controller.tick(), MLP" if step == POLICY_STEP else "", step, times, None)
    console.print(table)


def grow(compiler: Compiler, folder: Path, loads: int, widths: Sequence[int], console: Console) -> None:
    """Print how times grow with parameters."""
    table = Table("parameters", "C, p50 µs", "reading", "ratio", "compiled in", "library")
    parameters, mine, read = [], [], []
    for _, program in programs({str(width): network_of(width) for width in widths}, folder, compiler):
        times = times_of_steps(program, compiler, loads)[POLICY_STEP]
        parameters.append(float(program.parameters))
        mine.append(median(times, C))
        read.append(median(times, READING))
        library = program.built.library
        assert library is not None
        size = f"{len(library.data) / 2**20:.1f} MiB"
        columns = (f"{mine[-1]:.1f}", f"{read[-1]:.1f}", f"{mine[-1] / read[-1]:.2f}", f"{library.seconds:.1f} s", size)
        table.add_row(f"{program.parameters / 1e3:.0f} k", *columns)
    console.print(table)
    for label, fixed_cost in (("of all", 0), (f"of those above {FIXED_COST} times the fastest", FIXED_COST)):
        console.print(
            f"Exponent of time against parameters, {label}: {exponent(parameters, mine, fixed_cost):.2f} (limit 1.05); "
            f"of reading them: {exponent(parameters, read, fixed_cost):.2f}"
        )


def main(loads: int = LOADS, widths: Sequence[int] = WIDTHS) -> None:
    """Measure and print the tables."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    compiler = find_compiler()
    if compiler is None:
        print("Programs in C are not measured: there is no compiler.")
        return
    console = Console(width=140)
    level = next(iter(machine.levels()), "any processor")
    console.print(f"{compiler.description}, {level}; {ROUNDS} interleaved rounds of each of {loads} loadings")
    with tempfile.TemporaryDirectory() as folder:
        compare(compiler, Path(folder), loads, console)
        grow(compiler, Path(folder), loads, widths, console)


if __name__ == "__main__":
    main()
