"""The ramp-in: from where the robot is to what the policy wants."""

from typing import Any

import numpy as np
import pytest

from exploy.errors import RuntimeInputError
from exploy.runtime import Controller
from tests.support.files import reciprocal_file, robot_file, robot_inputs
from tests.support.robot import JOINTS, SIM_DT

START = np.array([5.0, -5.0, 1.0], dtype=np.float32)


@pytest.fixture
def controller() -> Controller:
    return Controller.load(robot_file())


def test_targets_go_from_the_start_to_those_of_the_policy(controller: Controller) -> None:
    plain = Controller.load(robot_file())
    controller.ramp_in("joint_targets", START, seconds=10 * SIM_DT)
    for tick in range(14):
        got, expected = controller.step(robot_inputs(tick)), plain.step(robot_inputs(tick))
        share = min(1.0, (tick + 1) / 10)
        led = START + share * (expected["joint_targets"] - START)
        np.testing.assert_allclose(got["joint_targets"], led, atol=1e-5)
        np.testing.assert_array_equal(got["actions"], expected["actions"])
    np.testing.assert_array_equal(got["joint_targets"], expected["joint_targets"])


def test_the_start_is_in_the_robots_order(controller: Controller) -> None:
    order = JOINTS[::-1]
    controller.bind("joints.pos", names=order)
    assert controller.ports["joint_targets"].names == ("toe", "knee", "hip")
    controller.ramp_in("joint_targets", np.array([1.0, 2.0, 3.0], np.float32), seconds=1e6)
    got = controller.step(robot_inputs())["joint_targets"]
    np.testing.assert_allclose(got, [[1.0, 2.0, 3.0]], atol=1e-3)


def test_values_at_the_end_of_the_range_are_blended_without_overflow() -> None:
    controller = Controller.load(reciprocal_file(), hz=100)
    controller.ramp_in("y", [3e38, -3e38], seconds=np.float32(0.04))
    got = controller.step({"x": [-3e-39, 3e-39]})["y"]
    assert np.isfinite(got).all()


def test_a_reset_ends_it(controller: Controller) -> None:
    controller.ramp_in("joint_targets", START, seconds=1.0)
    controller.step(robot_inputs())
    controller.reset()
    expected = Controller.load(robot_file()).step(robot_inputs())["joint_targets"]
    np.testing.assert_array_equal(controller.step(robot_inputs())["joint_targets"], expected)


def test_no_time_is_no_ramp(controller: Controller) -> None:
    controller.ramp_in("joint_targets", START, seconds=0.0)
    expected = Controller.load(robot_file()).step(robot_inputs())["joint_targets"]
    np.testing.assert_array_equal(controller.step(robot_inputs())["joint_targets"], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("targets", START, 1.0), "'targets' is not an output that every tick computes"),
        (("actions", START, 1.0), "'actions' is not an output that every tick computes"),
        (("joint_targets", START, -1.0), r"must be 0 or more seconds, got -1\.0"),
        (("joint_targets", START, float("nan")), "must be 0 or more seconds"),
        (("joint_targets", START, "soon"), "must be 0 or more seconds"),
        (("joint_targets", START, None), "must be 0 or more seconds"),
        (("joint_targets", START[:2], 1.0), r"must be float32 \[1, 3\], got float32 \[2\]"),
        (("joint_targets", [np.nan, 0.0, 0.0], 1.0), "must start from finite values"),
    ],
)
def test_what_cannot_be_led_is_refused(controller: Controller, arguments: Any, message: str) -> None:
    with pytest.raises(RuntimeInputError, match=message):
        controller.ramp_in(*arguments)


def test_the_time_of_a_tick_must_be_known() -> None:
    with pytest.raises(RuntimeInputError, match="needs the tick rate"):
        Controller.load(reciprocal_file()).ramp_in("y", [0.0, 0.0], 1.0)
    controller = Controller.load(reciprocal_file(), hz=100)
    controller.ramp_in("y", [0.0, 0.0], 0.02)
    assert controller.step({"x": [1.0, 1.0]})["y"].tolist() == [[0.5, 0.5]]
