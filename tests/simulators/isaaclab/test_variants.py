"""Other tasks of Isaac Lab, motors, histories and delays; a process can have one environment at a time."""

import json
from pathlib import Path

import onnx
import pytest
from isaaclab.actuators import IdealPDActuatorCfg
from isaaclab.envs.mdp import RelativeJointPositionActionCfg

from exploy.runtime import Controller
from tests.support.isaaclab_exports import CART_POLE, FLAT, ROUGH, TORCH_MOTORS, exported_task, learned_motors
from tests.support.simulator_exports import Exported, assert_agrees, assert_first_tick_agrees, assert_names_are_agreed

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.expensive]  # warnings of Isaac Lab, Newton and Warp

LAGS = {f"observations.policy.joint_vel.{name}": 1 for name in ("delay_min_lag", "delay_max_lag")}
RELATIVE = {"actions.joint_pos": RelativeJointPositionActionCfg(asset_name="robot", joint_names=[".*"], scale=0.2)}
MOTORS = {**TORCH_MOTORS, "motors": True}


def memories_of(exported: Exported) -> set[str]:
    return {item.name for item in exported[0].context_manager().get_memory_components()}


def metadata_of(exported: Exported) -> dict[str, str]:
    return {item.key: item.value for item in onnx.load(exported[2]).metadata_props}


def sub_step_inputs(exported: Exported, output: str) -> list[str]:
    return list(Controller.load(exported[2]).contract.sub_step_inputs.get(output, []))


def test_the_cart_pole_agrees(tmp_path: Path) -> None:
    with exported_task(CART_POLE, tmp_path) as exported:
        assert_agrees(exported)
        assert_first_tick_agrees(exported)
        assert_names_are_agreed(exported)
        described = json.loads(metadata_of(exported)["obj.robot.joints.pos"])
        assert described["units"] == ["m", "rad"]


def test_rough_terrain_has_the_heights_of_the_ray_caster(tmp_path: Path) -> None:
    with exported_task(ROUGH, tmp_path, **TORCH_MOTORS) as exported:
        assert_agrees(exported)
        assert_first_tick_agrees(exported)
        assert_names_are_agreed(exported)
        pattern = json.loads(metadata_of(exported)["sensor.ray_caster.height_scanner"])
        described = {key: pattern[key] for key in ("pattern_type", "articulation_name", "resolution", "size_x")}
        expected = {"pattern_type": "grid", "articulation_name": "robot", "resolution": 0.1, "size_x": 1.6}
        assert described == expected and len(pattern["points"]) == 187


@pytest.mark.parametrize("actuators", ["dc", "lstm"])
def test_motors_that_newton_runs_take_targets_once_per_policy_step(actuators: str, tmp_path: Path) -> None:
    settings = {"scene.robot.actuators": learned_motors(tmp_path)} if actuators == "lstm" else {}
    with exported_task(FLAT, tmp_path, **{"sim.use_newton_actuators": True, **settings}) as exported:
        raw = exported[0].env
        runs_all = raw._physics_handles_decimation
        assert exported[0].decimation == (1 if runs_all else raw.cfg.decimation)
        assert exported[0].sim_dt * exported[0].decimation == pytest.approx(raw.step_dt)
        assert_agrees(exported)
        assert_first_tick_agrees(exported)
        assert_names_are_agreed(exported)


def test_targets_for_a_learned_motor_outside_of_newton(tmp_path: Path) -> None:
    settings = {**TORCH_MOTORS, "scene.robot.actuators": learned_motors(tmp_path)}
    with exported_task(FLAT, tmp_path, **settings) as exported:
        assert_agrees(exported)
        assert_first_tick_agrees(exported)
        assert_names_are_agreed(exported)


def test_dc_motors_in_the_file_compute_efforts_in_every_sub_step(tmp_path: Path) -> None:
    with exported_task(FLAT, tmp_path, **MOTORS) as exported:
        assert_agrees(exported)
        assert_first_tick_agrees(exported)
        assert_names_are_agreed(exported)
        assert {"obj.robot.joints.pos", "obj.robot.joints.vel"} <= set(
            sub_step_inputs(exported, "output.joint_efforts.robot")
        )
        assert exported[0].names_unknown_to_robots == ["output.joint_efforts.robot"]


def test_learned_motors_in_the_file_keep_their_state_from_sub_step_to_sub_step(tmp_path: Path) -> None:
    with exported_task(FLAT, tmp_path, **MOTORS, **{"scene.robot.actuators": learned_motors(tmp_path)}) as exported:
        assert {"motors.robot.legs.sea_hidden_state", "motors.robot.legs.sea_cell_state"} <= memories_of(exported)
        assert_agrees(exported)
        assert_first_tick_agrees(exported)
        assert_names_are_agreed(exported)


def test_histories_and_delays_are_memories(tmp_path: Path) -> None:
    settings = {**TORCH_MOTORS, **LAGS, "observations.policy.history_length": 3}
    with exported_task(FLAT, tmp_path, **settings) as exported:
        names = {"history.policy.joint_pos.frames", "history.policy.joint_vel.count", "delay.policy.joint_vel.frames"}
        assert names <= memories_of(exported)
        assert_agrees(exported)
        assert_first_tick_agrees(exported)
        assert_names_are_agreed(exported)


@pytest.mark.parametrize("native", [False, True])
def test_relative_actions_read_joints_when_they_are_applied(native: bool, tmp_path: Path) -> None:
    settings = {**RELATIVE, "sim.use_newton_actuators": native}
    with exported_task(FLAT, tmp_path, **settings) as exported:
        assert_agrees(exported)
        assert_first_tick_agrees(exported)
        assert_names_are_agreed(exported)
        if not native:
            assert sub_step_inputs(exported, "output.joint_targets.robot.pos") == ["obj.robot.joints.pos"]


def test_bases_and_gains_are_right_when_bodies_and_joints_have_another_order(tmp_path: Path) -> None:
    legs = ("LF", "LH", "RF", "RH")
    links = [f"{leg}_{link}" for leg in legs for link in ("HIP", "THIGH", "SHANK", "FOOT")]
    order = [f"{leg}_{joint}" for joint in ("KFE", "HFE", "HAA") for leg in reversed(legs)]
    knees = {"LF.*": 1.0, "LH.*": 2.0, "RF.*": 3.0, "RH.*": 4.0}
    settings = {
        "scene.robot.body_ordering": (links[0], "base", *links[1:]),
        "scene.robot.joint_ordering": tuple(order),
        "scene.robot.actuators": {
            "others": IdealPDActuatorCfg(
                joint_names_expr=[".*HAA", ".*HFE"], stiffness={".*HAA": 6.0, ".*HFE": 5.0}, damping=0.5
            ),
            "knees": IdealPDActuatorCfg(joint_names_expr=[".*KFE"], stiffness=knees, damping=0.25),
        },
    }
    with exported_task(FLAT, tmp_path, **TORCH_MOTORS, **settings) as exported:
        described = metadata_of(exported)
        assert json.loads(described["base_names"]) == {"robot": "base"}
        assert json.loads(described["obj.robot.base.lin_vel_b_rt_w_in_b"])["frame"] == "base"
        targets = json.loads(described["output.joint_targets.robot"])
        assert targets["names"] == json.loads(described["obj.robot.joints"])["joint_names"] == order
        assert targets["stiffness"] == [4.0, 3.0, 2.0, 1.0, 5.0, 5.0, 5.0, 5.0, 6.0, 6.0, 6.0, 6.0]
        assert targets["damping"] == [0.25] * 4 + [0.5] * 8
        assert_agrees(exported)
