"""User code is all code except torch and exploy. The demo and the adapters of simulators count as user code."""

from pathlib import Path

import pytest
import torch

import exploy
from exploy.demo.cart_pole import CartPole
from exploy.live.location import is_internal
from exploy.live.object_graph import data_places

PACKAGE = Path(exploy.__file__).parent


@pytest.mark.parametrize(
    ("path", "internal"),
    [
        (Path(torch.__file__), True),
        (PACKAGE / "capture" / "pipeline.py", True),
        (PACKAGE / "cli" / "check.py", True),
        (PACKAGE / "trainers" / "torchrl" / "environment.py", True),
        (PACKAGE / "demo" / "cart_pole.py", False),
        (PACKAGE / "simulators" / "some_simulator.py", False),
        (PACKAGE.with_name("exploy_extra") / "environment.py", False),
        (Path(__file__), False),
    ],
)
def test_files_are_told_apart(path: Path, internal: bool) -> None:
    assert is_internal(str(path)) is internal


def test_the_data_of_users_classes_is_state_and_that_of_exploys_own_is_not() -> None:
    class Mine(CartPole):
        gain = 2.0

    adapter = type("Adapter", (), {"__module__": "exploy.simulators.some_simulator", "gain": 2.0})
    assert ("gain", Mine) in data_places(Mine)
    assert data_places(adapter) == (("gain", adapter),)
    assert data_places(exploy.Diagnosis) == ()
