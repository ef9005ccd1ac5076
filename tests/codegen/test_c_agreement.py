"""Compiled files of many kinds compute what onnxruntime does: at random ticks, at both rates, and in a closed loop."""

import shutil
from collections.abc import Mapping

import numpy as np
import pytest

from exploy.comparison import difference
from exploy.runtime import Controller
from exploy.verify.stepped import SteppedRunners, Values, stepped_file
from tests.support.c_samples import KINDS, sample, sample_archive
from tests.support.c_ticks import RESET_EVERY, random_ticks
from tools.c_agreement import compare

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
TICKS = 3 * RESET_EVERY


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_file_agrees_at_random_ticks(kind: str) -> None:
    file = sample(kind)
    assert compare(stepped_file(file.data), stepped_file(sample_archive(kind)), file.contract, TICKS, RESET_EVERY) == ""


def test_the_files_differ_in_rates_memories_and_types() -> None:
    contracts = [sample(kind).contract for kind in KINDS]
    assert {contract.decimation for contract in contracts} == {1, 2, 4}
    assert {bool(contract.memories) for contract in contracts} == {True, False}
    inputs = {port.dtype for contract in contracts for port in contract.inputs}
    assert inputs == {"float32", "int64", "int32", "bool", "uint8"}


class Off(SteppedRunners):
    """A program whose outputs are off by a little more than rounding explains."""

    def __init__(self, right: SteppedRunners):
        super().__init__(right.label, right.contract, right._runners)

    def run(self, step_count: int, values: Mapping[str, np.ndarray]) -> Values:
        results = super().run(step_count, values)
        return results | {"torque": results["torque"] * np.float32(1.001)}


def test_a_difference_is_found() -> None:
    file = sample("lstm")
    found = compare(stepped_file(file.data), Off(stepped_file(sample_archive("lstm"))), file.contract, TICKS)
    assert found.startswith("tick 0: output 'torque', element ")


@pytest.mark.parametrize("kind", ["lstm", "demo"])
def test_a_controller_on_c_stays_with_one_on_onnxruntime(kind: str) -> None:
    """Each feeds its own memories back."""
    file = sample(kind)
    controllers = [Controller.load(file.data), Controller.load(sample_archive(kind), allow_code=True)]
    for tick in random_ticks(file.contract, 10 * RESET_EVERY):
        if tick.is_reset:
            for controller in controllers:
                controller.reset()
        expected, got = (controller.step(tick.inputs) for controller in controllers)
        for name, value in expected.items():
            assert difference(value, got[name], 1e-5, 1e-4, by_largest=True) is None, name
