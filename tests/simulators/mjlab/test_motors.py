"""Models of motors of mjlab in the file: efforts at the rate of the simulation, with delays of commands."""

from pathlib import Path
from typing import Any

import pytest
from mjlab.actuator import DcMotorActuatorCfg
from mjlab.envs.mdp.actions import JointPositionActionCfg

import exploy
from exploy.errors import InvalidEnvironmentError
from exploy.runtime import Controller
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


def test_motors_of_mujoco_itself_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidEnvironmentError, match=r"MuJoCo itself computes.*Leave motors=True out"):
        make_task(CART_POLE, tmp_path, motors=True)
