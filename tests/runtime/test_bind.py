"""Binding by name: inputs, targets, limits and gains in the robot's order."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exploy.errors import FaultError, RuntimeInputError
from exploy.runtime import Controller
from tests.support.files import robot_file, robot_inputs
from tests.support.robot import ACTUATORS, DAMPING, JOINTS, STIFFNESS


@pytest.fixture
def controller() -> Controller:
    return Controller.load(robot_file())


def in_order(values: np.ndarray, names: list[str], order: list[str]) -> np.ndarray:
    """Elements of the last dimension in another order."""
    return values[..., [names.index(name) for name in order]]


@settings(derandomize=True, deadline=None, max_examples=24)
@given(order=st.permutations(JOINTS))
def test_any_order_gives_the_same_commands_in_that_order(order: list[str]) -> None:
    plain, bound = Controller.load(robot_file()), Controller.load(robot_file())
    orders = bound.bind("joints.pos", names=order)
    targets = [name for name in order if name in ACTUATORS]
    assert orders == {"joints.pos": tuple(order), "joints.vel": tuple(order), "joint_targets": tuple(targets)}
    for tick in range(6):
        values = robot_inputs(tick)
        expected = plain.step(values)
        moved = {name: in_order(value, JOINTS, order) for name, value in values.items() if name != "cmd"}
        got = bound.step(values | moved)
        np.testing.assert_array_equal(got["joint_targets"], in_order(expected["joint_targets"], ACTUATORS, targets))
        np.testing.assert_array_equal(got["obs"], expected["obs"])
    assert bound.gains["joint_targets"]["stiffness"].tolist() == [STIFFNESS[ACTUATORS.index(name)] for name in targets]
    assert bound.gains["joint_targets"]["damping"].tolist() == [DAMPING[ACTUATORS.index(name)] for name in targets]


def test_the_fast_way_is_bound_as_well(controller: Controller) -> None:
    plain = Controller.load(robot_file())
    expected = plain.step(robot_inputs())
    controller.bind("joints.pos", names=JOINTS[::-1])
    for name, value in robot_inputs().items():
        controller.inputs[name][:] = value if name == "cmd" else value[:, ::-1]
    controller.tick()
    order = [name for name in JOINTS[::-1] if name in ACTUATORS]
    np.testing.assert_array_equal(
        controller.outputs["joint_targets"], in_order(expected["joint_targets"], ACTUATORS, order)
    )


def test_binding_again_replaces_the_order_and_the_files_own_order_undoes_it(controller: Controller) -> None:
    plain = Controller.load(robot_file()).step(robot_inputs())
    controller.bind("joints.vel", names=["toe", "hip", "ankle", "knee"])
    controller.bind("joints.pos", names=JOINTS)
    controller.bind("joint_targets", names=ACTUATORS)
    np.testing.assert_array_equal(controller.step(robot_inputs())["joint_targets"], plain["joint_targets"])


def test_targets_alone_can_be_bound(controller: Controller) -> None:
    expected = Controller.load(robot_file()).step(robot_inputs())
    assert controller.bind("joint_targets", names=["hip", "knee", "toe"]) == {"joint_targets": ("hip", "knee", "toe")}
    got = controller.step(robot_inputs())
    np.testing.assert_array_equal(got["joint_targets"], expected["joint_targets"][:, [1, 2, 0]])


def test_of_the_names_of_a_whole_robot_each_port_takes_its_own(controller: Controller) -> None:
    robot = ["head", "toe", "wrist", "knee", "hip", "elbow", "ankle"]
    taken = controller.bind("joints.pos", names=robot)
    assert taken == {
        "joints.pos": ("toe", "knee", "hip", "ankle"),
        "joints.vel": ("toe", "knee", "hip", "ankle"),
        "joint_targets": ("toe", "knee", "hip"),
    }
    expected = Controller.load(robot_file()).step(robot_inputs())
    order = [robot.index(name) for name in taken["joints.pos"]]
    positions, velocities = np.zeros((2, len(robot)), np.float32)
    for whole, name in ((positions, "joints.pos"), (velocities, "joints.vel")):
        whole[[robot.index(joint) for joint in JOINTS]] = robot_inputs()[name][0]
    got = controller.step(robot_inputs() | {"joints.pos": positions[order], "joints.vel": velocities[order]})
    targets = in_order(expected["joint_targets"], ACTUATORS, list(taken["joint_targets"]))
    np.testing.assert_array_equal(got["joint_targets"], targets)


def test_limits_and_messages_follow_the_order(controller: Controller) -> None:
    controller.bind("joints.pos", names=["toe", "hip", "knee", "ankle"])
    limits = controller.ports["joints.pos"].limits
    assert limits == ((-8.0, 8.0), (-9.0, 9.0), (-9.0, 9.0), (-9.0, 9.0))
    values = robot_inputs()
    with pytest.raises(FaultError, match=r"element \[0, 0\] \(toe\), is 8\.5; its limits are -8 and 8"):
        controller.step(values | {"joints.pos": np.array([8.5, 0, 0, 0], np.float32)})
    controller.reset()
    controller.step(values | {"joints.pos": np.array([0, 8.5, 0, 0], np.float32)})
    controller.reset()
    with pytest.raises(FaultError, match=r"element \[0, 3\] \(ankle\), is nan"):
        controller.step(values | {"joints.vel": np.array([0, 0, 0, np.nan], np.float32)})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["hip", "knee", "ankle"], r"missing: toe\."),
        (["hip", "knee", "ankle", "toe", "toe"], r"given twice: toe\."),
        (["hip", "knee", "ankle", "thumb"], r"missing: toe; not in the file: thumb\."),
        (["hip", "hip", "thumb", "toe"], r"missing: knee, ankle; given twice: hip; not in the file: thumb\."),
        (["hip", "knee", "ankle", "toe", "thumb", "thumb"], r"given twice: thumb; not in the file: thumb, thumb\."),
        ([], r"missing: hip, knee, ankle, toe\."),
        ("hip", r"must be a list of strings, got 'hip'"),
        ([1, 2, 3, 4], r"must be a list of strings"),
    ],
)
def test_names_that_are_not_those_of_the_port_are_refused_and_listed(
    controller: Controller, names: Any, message: str
) -> None:
    before = dict(controller.ports)
    with pytest.raises(RuntimeInputError, match=message):
        controller.bind("joints.pos", names=names)
    assert dict(controller.ports) == before


def test_a_port_without_names_and_an_unknown_one_are_refused(controller: Controller) -> None:
    with pytest.raises(RuntimeInputError, match=r"'obs' has no element names.*metadata=\{'names'"):
        controller.bind("obs", names=["a"])
    with pytest.raises(RuntimeInputError, match=r"Unknown port 'joints'\. The ports are joints\.pos, joints\.vel"):
        controller.bind("joints", names=JOINTS)


def test_nothing_is_bound_in_the_middle_of_a_run(controller: Controller) -> None:
    controller.step(robot_inputs())
    with pytest.raises(RuntimeInputError, match=r"Call bind\(\) after a reset"):
        controller.bind("joints.pos", names=JOINTS)
    controller.reset()
    controller.bind("joints.pos", names=JOINTS)


@pytest.mark.parametrize("split", [True, False])
def test_resets_and_many_orders_do_not_mix_up_buffers(split: bool) -> None:
    controller = Controller.load(robot_file(), split=split)
    expected = Controller.load(robot_file()).step(robot_inputs())["actions"]
    for order in itertools.islice(itertools.permutations(JOINTS), 8):
        controller.reset()
        controller.bind("joints.pos", names=order)
        moved = {name: in_order(value, JOINTS, list(order)) for name, value in robot_inputs().items() if name != "cmd"}
        got = controller.step(robot_inputs() | moved)["actions"]
        np.testing.assert_allclose(got, expected, atol=1e-6)
