"""One program gives the same bits whatever compiles it: gcc or clang, with and without optimisation, for any processor.

Of a NaN, neither IEEE 754 nor C say which sign it has: NaN must be at the same places, and all else equal bit by bit.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from exploy.codegen.program import Program
from tests.support.c_compilers import COMPILERS, LEVELS, STRICT, require_tool
from tests.support.c_samples import MAIN_KINDS, sample, sample_program
from tests.support.c_ticks import Computed, Tick, compile_ticks, random_ticks, read_ticks, run_ticks

TICKS = 120
BUILDS = [(compiler, level) for compiler in COMPILERS for level in LEVELS]


def ticks_of(kind: str) -> list[Tick]:
    """Random ticks with resets; numbers that are not finite, or tiny, in the second half."""
    rng = np.random.default_rng(1)
    return [
        tick if number < TICKS // 2 else with_special_values(tick, rng)
        for number, tick in enumerate(random_ticks(sample(kind).contract, TICKS))
    ]


def with_special_values(tick: Tick, rng: np.random.Generator) -> Tick:
    special = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, -1e-40, -0.0]
    inputs = {name: array.copy() for name, array in tick.inputs.items()}
    for array in inputs.values():
        if array.dtype.kind == "f" and rng.random() < 0.3:
            array.reshape(-1)[rng.integers(array.size)] = rng.choice(special)
    return Tick(tick.is_reset, inputs)


def bits(tick: Computed) -> dict[str, bytes]:
    """All that was computed at a tick, with one NaN for all."""
    arrays = {f"output {name}": array for name, array in tick.outputs.items()}
    arrays |= {f"memory {name}": array for name, array in tick.memories.items()}
    one = {
        name: np.where(np.isnan(array), array.dtype.type(np.nan), array) if array.dtype.kind == "f" else array
        for name, array in arrays.items()
    }
    return {"status": bytes([tick.status]), **{name: array.tobytes() for name, array in one.items()}}


def computed(program: Program, ticks: Sequence[Tick], folder: Path) -> Iterator[tuple[str, list[Computed]]]:
    for number, (compiler, level) in enumerate(BUILDS):
        own = folder / str(number)
        own.mkdir()
        path = compile_ticks(program, own, require_tool(compiler), (*STRICT, *level))
        yield f"{compiler} {' '.join(level)}", read_ticks(run_ticks(path, program, ticks), program)


@pytest.mark.parametrize("kind", MAIN_KINDS)
def test_all_compilers_and_levels_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    program = sample_program(kind)
    results = list(computed(program, ticks_of(kind), tmp_path))
    for (one, expected), (other, got) in itertools.pairwise(results):
        for number, (mine, theirs) in enumerate(zip(expected, got, strict=True)):
            assert bits(mine) == bits(theirs), f"{one} and {other} at tick {number}"
    ticks = results[0][1]
    assert len(ticks) == TICKS and all(tick.status == 0 for tick in ticks)
    assert all(np.isfinite(array).all() for tick in ticks[: TICKS // 2] for array in tick.outputs.values())
    assert any(np.isnan(array).any() for tick in ticks[TICKS // 2 :] for array in tick.outputs.values())
