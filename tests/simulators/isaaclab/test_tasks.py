"""ANYmal of Isaac Lab, registered by itself: exported, and compared with the environment over sub-steps and resets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

import exploy
from exploy.contract import Contract
from exploy.runtime import Controller
from tests.support.isaaclab_exports import FLAT, TORCH_MOTORS, exported_task
from tests.support.simulator_exports import Exported, assert_agrees, assert_first_tick_agrees, assert_names_are_agreed

pytestmark = pytest.mark.filterwarnings("ignore")  # of Isaac Lab, Newton and Warp


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    """ANYmal D on flat terrain, whose motors are computed outside of Newton."""
    with exported_task(FLAT, tmp_path_factory.mktemp("flat"), **TORCH_MOTORS) as exported:
        yield exported


def contract_of(file: Path) -> Contract:
    return Controller.load(file).contract


def names_of(exported: Exported) -> set[str]:
    return {item.name for item in exported[0].context_manager().get_input_components()}


# -- names and metadata ----------------------------------------------------------------------------------------------

PATHS = {
    "obj.robot.base.w_Q_b": "_root_link_pose_w",
    "obj.robot.base.lin_vel_b_rt_w_in_b": "_root_com_vel_w",
    "obj.robot.base.ang_vel_b_rt_w_in_b": "_root_com_vel_w",
    "obj.robot.joints.pos": "_joint_pos",
    "obj.robot.joints.vel": "_joint_vel",
    "cmd.se2_velocity.base_velocity": "vel_command_b",
    "actions": "action_manager._action",
}


def test_anymal_agrees(flat: Exported) -> None:
    assert_agrees(flat)
    assert_first_tick_agrees(flat)
    assert_names_are_agreed(flat)


def test_the_file_of_anymal_has_the_names_and_metadata_that_robots_know(flat: Exported) -> None:
    env, _, file = flat
    model = onnx.load(file)
    metadata = {item.key: item.value for item in model.metadata_props}
    inputs = {item.name for item in model.graph.input if not item.name.startswith(("memory.", "ctx."))}
    assert inputs == {name for name in PATHS if "." in name}
    joints = list(env.env.scene["robot"].joint_names)
    assert json.loads(metadata["obj.robot.joints"]) == {"joint_names": joints}
    assert json.loads(metadata["base_names"]) == {"robot": "base"}
    assert float(metadata["update_rate"]) == 200.0 and metadata["decimation"] == "4"
    assert json.loads(metadata["exploy_version"])
    assert json.loads(metadata["cmd.se2_velocity.base_velocity"])["ranges"]["lin_vel_x"] == [-1.0, 1.0]
    targets = json.loads(metadata["output.joint_targets.robot"])
    assert targets["type"] == "joint_targets" and targets["names"] == joints
    assert targets["stiffness"] == [40.0] * 12 and targets["damping"] == [5.0] * 12
    assert env.names_unknown_to_robots == []


def test_ports_have_units_frames_and_limits(flat: Exported) -> None:
    ports = {port.name: port for port in contract_of(flat[2]).inputs}
    assert ports["obj.robot.joints.pos"].unit == "rad" and ports["obj.robot.joints.vel"].unit == "rad/s"
    assert ports["obj.robot.base.lin_vel_b_rt_w_in_b"].frame == "base"
    assert ports["obj.robot.base.w_Q_b"].names == ("w", "x", "y", "z")
    limits: Any = ports["obj.robot.joints.pos"].limits
    low, high = flat[0].env.scene["robot"].data.joint_pos_limits.torch[0, 0].tolist()
    assert limits[0][0] < low < high < limits[0][1]


def test_the_file_of_anymal_tells_what_the_robot_measures(flat: Exported) -> None:
    assert {port.name: port.source for port in contract_of(flat[2]).inputs if port.name in PATHS} == {
        "obj.robot.base.w_Q_b": "measured",
        "obj.robot.base.lin_vel_b_rt_w_in_b": "estimated",
        "obj.robot.base.ang_vel_b_rt_w_in_b": "measured",
        "obj.robot.joints.pos": "measured",
        "obj.robot.joints.vel": "measured",
        "cmd.se2_velocity.base_velocity": None,
    }


def test_the_orientation_has_w_first(flat: Exported) -> None:
    env = flat[0]
    env.reset()
    inputs = {item.name: item for item in env.context_manager().get_input_components()}
    x, y, z, w = env.env.scene["robot"].data.root_link_quat_w.torch[0].tolist()
    assert inputs["obj.robot.base.w_Q_b"].fetch()[0].tolist() == [w, x, y, z]


# -- what is missing is found ----------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("name", PATHS)
def test_a_component_of_anymal_that_is_left_out_is_found_and_named(name: str, flat: Exported) -> None:
    env, actor, _ = flat
    with env.context_manager().registrations_undone():
        env.context_manager().remove_component(name)
        diagnosis = exploy.check_environment(env, actor)
    assert any(PATHS[name] in finding.tensor for finding in diagnosis.errors), str(diagnosis)


def test_every_component_of_anymal_is_left_out_once(flat: Exported) -> None:
    assert names_of(flat) == set(PATHS)


@pytest.mark.expensive
def test_a_check_of_anymal_finds_nothing(flat: Exported) -> None:
    diagnosis = exploy.check_environment(flat[0], flat[1])
    assert diagnosis.ok, str(diagnosis)
