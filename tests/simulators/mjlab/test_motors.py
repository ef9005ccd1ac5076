"""Motors of mjlab: gains and gears of MuJoCo's own ones, and models in the file at the rate of the simulation."""

import json
from pathlib import Path
from typing import Any

import mujoco
import onnx
import pytest
from mjlab.actuator import DcMotorActuatorCfg
from mjlab.actuator.builtin_actuator import BuiltinDcMotorActuatorCfg, DcMotorInputMode, DcMotorPhysicalParams
from mjlab.envs import ManagerBasedRlEnv, ManagerBasedRlEnvCfg
from mjlab.envs.mdp import dr
from mjlab.envs.mdp.actions import JointPositionActionCfg
from mjlab.managers.event_manager import EventTermCfg
from mjlab.managers.scene_entity_config import SceneEntityCfg
from mjlab.tasks.registry import load_env_cfg

import exploy
from exploy.errors import InvalidEnvironmentError, RandomizedConstantWarning
from exploy.runtime import Controller
from exploy.simulators.mjlab import MjlabEnvironment
from exploy.simulators.mjlab.mujoco_actuators import MujocoActuator, mujoco_actuator
from exploy.simulators.mjlab.tasks import load_task
from exploy.simulators.task_settings import apply_settings
from tests.support.mjlab_exports import CART_POLE, make_task
from tests.support.simulator_exports import assert_agrees, assert_first_tick_agrees, assert_names_are_agreed


def motors(**options: Any) -> dict[str, Any]:
    """The settings of a cart-pole whose cart has a DC motor."""
    motor = DcMotorActuatorCfg(
        target_names_expr=("slider",),
        stiffness=30.0,
        damping=3.0,
        effort_limit=10.0,
        saturation_effort=15.0,
        velocity_limit=20.0,
        **options,
    )
    action = JointPositionActionCfg(entity_name="cartpole", actuator_names=("slider",), scale=0.5)
    return {"scene.entities.cartpole.articulation.actuators": (motor,), "actions.effort": action}


def test_efforts_of_delayed_motors_agree_in_every_sub_step(tmp_path: Path) -> None:
    env, actor = make_task(CART_POLE, tmp_path, motors=True, **motors(delay_min_lag=2, delay_max_lag=2))
    file = exploy.export(env, actor, tmp_path / "policy.onnx", strict=False).path
    contract = Controller.load(file).contract
    assert {"obj.cartpole.joints.pos", "obj.cartpole.joints.vel"} <= set(
        contract.sub_step_inputs["output.joint_efforts.cartpole"]
    )
    (port,) = [port for port in contract.outputs if port.name == "output.joint_efforts.cartpole"]
    assert (port.unit, port.names, port.on_stop) == ("N", ("slider",), "zero")
    assert_agrees((env, actor, file))
    assert_first_tick_agrees((env, actor, file))
    assert_names_are_agreed((env, actor, file))


def test_delays_of_motors_that_are_drawn_at_random_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidEnvironmentError, match=r"motors\.cartpole\.0 is drawn at random, from 0 to 2 steps"):
        make_task(CART_POLE, tmp_path, motors=True, **motors(delay_max_lag=2))


def random_gains(**settings: Any) -> ManagerBasedRlEnvCfg:
    """The configuration of a cart-pole whose gains an event draws."""
    cfg = load_env_cfg(CART_POLE)  # a copy, other than that of cartpole_balance_env_cfg()
    cfg.scene.num_envs = 1
    params = {"asset_cfg": SceneEntityCfg("cartpole"), "kp_range": (0.5, 0.6), "kd_range": (0.5, 0.6)}
    cfg.events["gains"] = EventTermCfg(mode="startup", func=dr.pd_gains, params=params)
    apply_settings(cfg, settings)
    return cfg


def test_gains_that_an_event_draws_are_said_if_the_file_computes_efforts() -> None:
    raw = ManagerBasedRlEnv(random_gains(**motors()), device="cpu")
    with pytest.warns(RandomizedConstantWarning, match=r"event gains \(startup\) has drawn at random gains"):
        MjlabEnvironment(raw, motors=True)
    assert (raw.scene["cartpole"].actuators[0].stiffness < 20).all()


def test_tasks_with_motors_leave_out_events_that_draw_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mjlab.tasks.registry.load_env_cfg", lambda task, play: random_gains())
    with pytest.warns(RandomizedConstantWarning, match="The event gains is left out"):
        env = load_task(CART_POLE, untrained=True, settings={"motors": True, **motors()})[0]
    assert env.env.scene["cartpole"].actuators[0].stiffness.tolist() == [[30.0]]


def test_motors_of_mujoco_itself_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidEnvironmentError, match=r"MuJoCo itself computes.*Leave motors=True out"):
        make_task(CART_POLE, tmp_path, motors=True)


def test_gains_of_dc_motors_of_mujoco_are_forces_and_those_behind_a_gear_have_no_unit(tmp_path: Path) -> None:
    motor = BuiltinDcMotorActuatorCfg(
        target_names_expr=("slider",),
        motor_params=DcMotorPhysicalParams(kt=0.5, ke=0.5, resistance=2.0),
        mode=DcMotorInputMode.POSITION,
        stiffness=30.0,
        damping=3.0,
        voltage_limit=24.0,
        gear=4.0,
    )
    settings = {**motors(), "scene.entities.cartpole.articulation.actuators": (motor,)}
    env, actor = make_task(CART_POLE, tmp_path, **settings)
    file = exploy.export(env, actor, tmp_path / "policy.onnx", strict=False).path
    described = {item.key: item.value for item in onnx.load(file).metadata_props}
    targets = json.loads(described["output.joint_targets.cartpole"])
    assert (targets["stiffness"], targets["damping"]) == ([7.5], [0.75])
    position, effort = (json.loads(described[f"output.joint_targets.cartpole.{port}"]) for port in ("pos", "effort"))
    assert position["gear"] == [4.0] and "unit" not in position
    assert effort["unit"] == "N"


@pytest.mark.parametrize(
    ("actuator", "expected"),
    [
        ('<motor joint="a" gear="3"/>', MujocoActuator(gear=3.0)),
        ('<position joint="a" kp="5" kv="2"/>', MujocoActuator(True, 5.0, 2.0, None, 1.0)),
        ('<position joint="a" kp="5" gear="3"/>', MujocoActuator(True, 5.0, 0.0, None, 3.0)),
        ('<velocity joint="a" kv="2"/>', MujocoActuator(True, 0.0, 2.0, None, 1.0)),
        ('<general joint="a" gainprm="4" biastype="affine" biasprm="0 -8"/>', MujocoActuator(True, 8.0, 0, None, 2.0)),
        ('<general joint="a" gainprm="4" biastype="affine" biasprm="1"/>', MujocoActuator(True)),
    ],
)
def test_actuators_of_mujoco(actuator: str, expected: MujocoActuator) -> None:
    body = '<body><joint name="a"/><geom size="0.1"/></body>'
    text = f"<mujoco><worldbody>{body}</worldbody><actuator>{actuator}</actuator></mujoco>"
    assert mujoco_actuator(mujoco.MjModel.from_xml_string(text), 0) == expected
