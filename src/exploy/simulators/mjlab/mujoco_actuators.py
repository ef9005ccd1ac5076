"""The actuators of a MuJoCo model: their gains, and their gears between targets and joints."""

from dataclasses import dataclass
from typing import Any

_NONE, _AFFINE, _DC_MOTOR = 0, 1, 3  # mujoco.mjtBias
_POSITION, _VELOCITY = 1, 2  # what targets of DC motors are; else voltages


@dataclass(frozen=True)
class MujocoActuator:
    """What MuJoCo makes of the control of an actuator.

    Attributes:
        computes_force: Whether it computes the force from a target, or the voltage of a motor.
        stiffness: Force per error of position, on the side of the actuator.
        damping: Force per error of velocity, on the side of the actuator.
        gear: What it multiplies efforts (or voltages) by; None if it takes no efforts.
        position_gear: What it divides targets of position and velocity by; None if it takes none.
    """

    computes_force: bool = False
    stiffness: float = 0.0
    damping: float = 0.0
    gear: float | None = None
    position_gear: float | None = None


def mujoco_actuator(model: Any, index: int) -> MujocoActuator:
    """The actuator of a number in a compiled model."""
    gear, kind = float(model.actuator_gear[index, 0]), int(model.actuator_biastype[index])
    gain, bias = model.actuator_gainprm[index].tolist(), model.actuator_biasprm[index].tolist()
    if kind == _AFFINE:  # force = gain * control - stiffness * length - damping * velocity
        stiffness, damping = -bias[1], -bias[2]
        of_target = (stiffness or damping) / gain[0] if gain[0] else 0.0
        return MujocoActuator(True, stiffness, damping, None, gear * of_target or None)
    if kind == _DC_MOTOR:
        return _dc_motor(gain, gear)
    return MujocoActuator(gear=gear * gain[0] if kind == _NONE else None)


def _dc_motor(gain: list[float], gear: float) -> MujocoActuator:
    """A DC motor; its gains are voltages per error, and a voltage makes a force by the constant of the motor."""
    resistance, constant, proportional, derivative, target = gain[0], gain[1], gain[4], gain[6], gain[8]
    force_per_voltage = constant / resistance
    if target == _POSITION:
        gains = proportional * force_per_voltage, derivative * force_per_voltage
        return MujocoActuator(True, *gains, None, gear)
    if target == _VELOCITY:
        return MujocoActuator(True, 0.0, proportional * force_per_voltage, None, gear)
    return MujocoActuator(True, gear=gear * force_per_voltage)
