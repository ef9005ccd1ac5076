"""mjlab's tasks, registered by themselves: exported, and compared with the environment over sub-steps and resets."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from mjlab.envs.mdp.actions import RelativeJointPositionActionCfg

import exploy
from exploy.contract import Contract
from exploy.contract.sources import source_notes
from exploy.diagnosis.finding import FindingKind
from exploy.runtime import Controller
from exploy.simulators.mjlab import MjlabEnvironment
from exploy.simulators.mjlab.sensors import sensor_ports
from tests.support.mjlab_exports import CART_POLE, G1, OTHERS, export_task, make_task
from tests.support.simulator_exports import Exported, assert_agrees, assert_first_tick_agrees, assert_names_are_agreed

pytestmark = pytest.mark.filterwarnings("ignore:MULTICCD is enabled:UserWarning")  # of mujoco_warp, on rough terrain


def test_the_cart_pole_agrees(cart_pole: Exported) -> None:
    assert_agrees(cart_pole)
    assert_first_tick_agrees(cart_pole)
    assert_names_are_agreed(cart_pole)


def test_the_g1_agrees(g1: Exported) -> None:
    assert_agrees(g1, steps=70)
    assert_first_tick_agrees(g1)
    assert_names_are_agreed(g1)


@pytest.mark.expensive
@pytest.mark.parametrize("task", OTHERS)
def test_every_other_task_agrees(task: str, tmp_path: Path) -> None:
    env, actor = make_task(task, tmp_path)
    exported = env, actor, exploy.export(env, actor, tmp_path / "policy.onnx").path
    assert_agrees(exported)
    assert_first_tick_agrees(exported)
    assert_names_are_agreed(exported)


def test_a_check_of_the_cart_pole_finds_nothing(cart_pole: Exported) -> None:
    env, actor, _ = cart_pole
    diagnosis = exploy.check_environment(env, actor)
    assert diagnosis.ok, str(diagnosis)


def test_histories_delays_and_relative_actions_are_memories_and_inputs_of_sub_steps(tmp_path: Path) -> None:
    action = RelativeJointPositionActionCfg(entity_name="cartpole", actuator_names=("slider",), scale=0.5)
    exported = export_task(
        CART_POLE,
        tmp_path,
        **{
            "observations.actor.history_length": 3,
            "observations.actor.terms.cart_vel.delay_min_lag": 2,
            "observations.actor.terms.cart_vel.delay_max_lag": 2,
            "actions.effort": action,
        },
    )
    env, _, file = exported
    memories = {memory.name for memory in env.context_manager().get_memory_components()}
    assert {f"history.actor.{name}.frames" for name in ("cart_pos", "pole_angle", "cart_vel", "pole_vel")} <= memories
    assert {"delay.actor.cart_vel.frames", "delay.actor.cart_vel.count"} <= memories
    assert contract_of(file).sub_step_inputs["output.joint_targets.cartpole.pos"] == ["obj.cartpole.joints.pos"]
    assert_agrees(exported)
    assert_first_tick_agrees(exported)
    assert_names_are_agreed(exported)


@pytest.mark.expensive
def test_the_g1_agrees_with_histories_delays_and_relative_actions(tmp_path: Path) -> None:
    action = RelativeJointPositionActionCfg(entity_name="robot", actuator_names=(".*",), scale=0.2)
    lags = {f"observations.actor.terms.joint_vel.{name}": 1 for name in ("delay_min_lag", "delay_max_lag")}
    settings = {"observations.actor.history_length": 3, **lags, "actions.joint_pos": action}
    env, actor = make_task(G1, tmp_path, **settings)
    exported = env, actor, exploy.export(env, actor, tmp_path / "policy.onnx").path
    assert_agrees(exported)
    assert_first_tick_agrees(exported)
    assert_names_are_agreed(exported)


def test_the_limit_of_the_wrapper_is_in_the_file(cart_pole: Exported, tmp_path: Path) -> None:
    env = MjlabEnvironment(cart_pole[0].env, clip_actions=1e-3)
    exported = env, cart_pole[1], exploy.export(env, cart_pole[1], tmp_path / "policy.onnx", strict=False).path
    assert_agrees(exported, steps=30)
    controller = Controller.load(exported[2])
    targets = controller.step({"obj.cartpole.joints.pos": [1.0, 1.5], "obj.cartpole.joints.vel": [3.0, 3.0]})
    assert abs(targets["actions"]) > 1e-3
    assert abs(targets["output.joint_targets.cartpole.effort"]) == pytest.approx(1e-3)


def contract_of(file: Path) -> Contract:
    return Controller.load(file).contract


# -- names and metadata ----------------------------------------------------------------------------------------------

G1_INPUTS = {
    "obj.robot.joints.pos",
    "obj.robot.joints.vel",
    "obj.robot.pelvis.w_Q_b",
    "sensor.imu.imu_in_pelvis.lin_vel_b_rt_w_in_b",
    "sensor.imu.imu_in_pelvis.ang_vel_b_rt_w_in_b",
    "cmd.se2_velocity.twist",
}


def test_the_file_of_the_g1_has_the_names_and_metadata_that_robots_know(g1: Exported) -> None:
    env, _, file = g1
    model = onnx.load(file)
    metadata = {item.key: item.value for item in model.metadata_props}
    inputs = {item.name for item in model.graph.input if not item.name.startswith(("memory.", "ctx."))}
    assert inputs == G1_INPUTS
    joints = list(env.env.scene["robot"].joint_names)
    assert json.loads(metadata["obj.robot.joints"]) == {"joint_names": joints}
    assert json.loads(metadata["base_names"]) == {"robot": "pelvis"}
    assert float(metadata["update_rate"]) == 200.0
    assert float(metadata["sim_dt"]) == 0.005
    assert metadata["decimation"] == "4"
    assert json.loads(metadata["exploy_version"])
    terms = ["base_lin_vel", "base_ang_vel", "projected_gravity", "joint_pos", "joint_vel", "actions", "command"]
    assert json.loads(metadata["obs_term_names"]) == terms
    ranges = json.loads(metadata["cmd.se2_velocity.twist"])["ranges"]
    assert ranges == {"lin_vel_x": [-1.5, 2.0], "lin_vel_y": [-1.0, 1.0], "ang_vel_z": [-0.7, 0.7]}
    assert env.names_unknown_to_robots == []


def test_targets_have_the_gains_of_the_model_in_the_order_of_joints(g1: Exported) -> None:
    env, _, file = g1
    metadata = {item.key: item.value for item in onnx.load(file).metadata_props}
    targets = json.loads(metadata["output.joint_targets.robot"])
    robot, model = env.env.scene["robot"], env.env.sim.mj_model
    assert targets["type"] == "joint_targets"
    assert targets["names"] == list(robot.joint_names)
    for name, stiffness, damping in zip(targets["names"], targets["stiffness"], targets["damping"], strict=True):
        actuator = model.actuator(f"robot/{name}")
        assert stiffness == actuator.gainprm[0] > 0
        assert damping == -actuator.biasprm[2] > 0
    stops = {port.name: port.on_stop for port in contract_of(file).outputs if port.name.startswith("output.")}
    assert stops == {
        "output.joint_targets.robot.pos": "hold",
        "output.joint_targets.robot.vel": "zero",
        "output.joint_targets.robot.effort": "zero",
    }


def test_efforts_that_a_gear_multiplies_have_no_unit_but_the_gear(cart_pole: Exported) -> None:
    (gear,) = cart_pole[0].env.sim.mj_model.actuator_gear[:, 0].tolist()
    metadata = {item.key: item.value for item in onnx.load(cart_pole[2]).metadata_props}
    described = json.loads(metadata["output.joint_targets.cartpole.effort"])
    assert described["gear"] == [gear] == [10.0] and "unit" not in described


def test_ports_have_units_frames_and_limits(g1: Exported) -> None:
    ports = {port.name: port for port in contract_of(g1[2]).inputs}
    assert ports["obj.robot.joints.pos"].unit == "rad"
    assert ports["sensor.imu.imu_in_pelvis.ang_vel_b_rt_w_in_b"].unit == "rad/s"
    assert ports["sensor.imu.imu_in_pelvis.ang_vel_b_rt_w_in_b"].frame == "imu_in_pelvis"
    assert ports["obj.robot.pelvis.w_Q_b"].names == ("w", "x", "y", "z")
    limits: Any = ports["obj.robot.joints.pos"].limits
    low, high = g1[0].env.sim.mj_model.joint("robot/left_knee_joint").range
    found = limits[list(g1[0].env.scene["robot"].joint_names).index("left_knee_joint")]
    assert found[0] < low and high < found[1]


def test_the_file_of_the_g1_tells_what_the_robot_measures(g1: Exported) -> None:
    contract = contract_of(g1[2])
    assert {port.name: port.source for port in contract.inputs if port.name in G1_INPUTS} == {
        "obj.robot.joints.pos": "measured",
        "obj.robot.joints.vel": "measured",
        "obj.robot.pelvis.w_Q_b": "measured",
        "sensor.imu.imu_in_pelvis.lin_vel_b_rt_w_in_b": "estimated",
        "sensor.imu.imu_in_pelvis.ang_vel_b_rt_w_in_b": "measured",
        "cmd.se2_velocity.twist": None,
    }
    notes = list(source_notes(contract.inputs).values())
    estimated = "sensor.imu.imu_in_pelvis.lin_vel_b_rt_w_in_b"
    assert notes == [f"An estimator must give {estimated}: a robot does not measure it."]


def test_sensors_of_mujoco_that_no_imu_has_are_judged_by_their_type(g1: Exported) -> None:
    told = {port.name: (port.metadata or {}).get("source") for port in sensor_ports(g1[0].env, ("actor",))}
    assert told["sensor.robot_imu_lin_acc"] == "measured"
    assert told["sensor.robot_root_angmom"] == "estimated"
    assert told["sensor.self_collision_pelvis_found"] is None


@pytest.mark.expensive
def test_a_check_on_rough_terrain_names_the_heights_that_a_robot_cannot_have(tmp_path: Path) -> None:
    diagnosis = exploy.check_environment(*make_task("Mjlab-Velocity-Rough-Unitree-G1", tmp_path), 3, lower=False)
    found = {item.kind: item.tensor for item in diagnosis.findings}
    assert found[FindingKind.SIMULATOR_ONLY] == "sensor.ray_caster.terrain_scan.height"
    assert FindingKind.UNKNOWN_SOURCE not in found


# -- what is missing is found ----------------------------------------------------------------------------------------

PATHS = {
    "cmd.se2_velocity.twist": "vel_command_b",
    "actions": "action_manager._action",
    "obj.robot.joints.pos": "qpos",
    "obj.robot.joints.vel": "qvel",
    "obj.robot.pelvis.w_Q_b": "xquat",
    "sensor.imu.imu_in_pelvis.lin_vel_b_rt_w_in_b": "robot/imu_lin_vel",
    "sensor.imu.imu_in_pelvis.ang_vel_b_rt_w_in_b": "robot/imu_ang_vel",
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", PATHS)
def test_a_component_of_the_g1_that_is_left_out_is_found_and_named(name: str, g1: Exported) -> None:
    env, actor, _ = g1
    with env.context_manager().registrations_undone():
        env.context_manager().remove_component(name)
        diagnosis = exploy.check_environment(env, actor)
    assert any(PATHS[name] in finding.tensor for finding in diagnosis.errors), str(diagnosis)


def test_every_component_of_the_g1_is_left_out_once(g1: Exported) -> None:
    assert {item.name for item in g1[0].context_manager().get_input_components()} == set(PATHS)
