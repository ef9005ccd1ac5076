"""What a port's kind and unit say about a robot that keeps getting its last value: does it stand, or does it move?"""

import re
from enum import StrEnum

from exploy.contract.parts import Port
from exploy.contract.units import (
    ANGLE,
    CURRENT,
    FORCE,
    LENGTH,
    ONE,
    POWER,
    PRESSURE,
    TIME,
    TORQUE,
    VOLTAGE,
    VOLUME,
    Dimension,
    dimension_of,
)


class Motion(StrEnum):
    """What a robot does while it gets the same value again and again."""

    STANDS = "a position"
    MOVES = "a rate or an effort"


_POSITIONS = (LENGTH, ANGLE)
_EFFORTS = (FORCE, TORQUE, CURRENT, VOLTAGE, POWER, PRESSURE)
_MOVES_IF_PER_TIME = (ONE, LENGTH, ANGLE, VOLUME, *_EFFORTS)  # kg/s is also the unit of a damping
_HIGHEST_RATE = 3  # m/s³, a jerk

STANDING_KINDS = frozenset(
    {"position", "positions", "pos", "angle", "angles", "orientation", "attitude", "pose", "height", "length"}
)
MOVING_KINDS = frozenset(
    {
        "velocity", "velocities", "vel", "speed", "speeds", "rate", "rates", "twist", "acceleration", "accelerations",
        "acc", "accel", "jerk", "effort", "efforts", "torque", "torques", "moment", "moments", "force", "forces",
        "wrench", "thrust", "current", "currents", "voltage", "voltages", "power", "pressure", "pressures",
    }
)  # fmt: skip
QUALIFIERS = frozenset(
    {
        "joint", "joints", "wheel", "wheels", "motor", "motors", "actuator", "actuators", "rotor", "rotors", "body",
        "base", "steering", "yaw", "pitch", "roll", "linear", "lin", "angular", "ang", "rotational", "translational",
        "se2", "se3", "target", "targets", "command", "commands", "cmd", "setpoint", "setpoints", "reference",
        "desired", "goal", "interface", "hardware",
    }
)  # fmt: skip
"""Words of a kind that say whose value it is, or that it is commanded, and do not change what the value is."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+[0-9]*|[0-9]+|[^\W_]+")
_WORDS = re.compile(r"[\w\s./:-]+")


def motion_of_kind(kind: str) -> Motion | None:
    """Return what a kind says: one word of a closed list, with qualifiers such as `joint` and `target`; else None.

    Words are separated by `_`, `-`, `.`, `/`, `:`, spaces or capital letters: `joint_position_target`, `JointPosition`,
    `position`. A kind with any other word, such as `torque_limit` or `position_error`, says nothing.
    """
    if not _WORDS.fullmatch(kind):
        return None
    words = {word.lower() for word in _WORD.findall(kind)} - QUALIFIERS
    if len(words) != 1:
        return None
    if words <= STANDING_KINDS:
        return Motion.STANDS
    return Motion.MOVES if words <= MOVING_KINDS else None


def motion_of_dimension(dimension: Dimension) -> Motion | None:
    """Return what a dimension says: lengths and angles are positions; efforts, and what is per time, move."""
    if dimension in _POSITIONS:
        return Motion.STANDS
    per_time = (base.times(TIME, -rate) for base in _MOVES_IF_PER_TIME for rate in range(1, _HIGHEST_RATE + 1))
    return Motion.MOVES if dimension in _EFFORTS or dimension in per_time else None


def declared_motion(port: Port) -> Motion | None:
    """Return what kind and unit say together; None if nothing is known, see `why_unknown()`.

    A number without dimension (`%`, `1`) leaves it to the kind.
    """
    by_kind = motion_of_kind(port.kind) if port.kind else None
    dimension = dimension_of(port.unit) if port.unit is not None else ONE
    if dimension is None:
        return None
    if dimension == ONE:
        return by_kind
    by_unit = motion_of_dimension(dimension)
    return by_unit if by_kind in (None, by_unit) else None


def why_unknown(port: Port) -> str:
    """Return why `declared_motion()` of a port is None, for messages."""
    by_kind = motion_of_kind(port.kind) if port.kind else None
    dimension = dimension_of(port.unit) if port.unit is not None else ONE
    if dimension is None:
        return f"its unit {port.unit!r} is not known"
    by_unit = motion_of_dimension(dimension)
    if by_kind is not None and by_unit is not None:
        return f"its kind {port.kind!r} is that of {by_kind}, but its unit {port.unit!r} that of {by_unit}"
    if dimension != ONE:
        return f"its unit {port.unit!r} is neither that of a position nor that of a rate or an effort"
    kind = "it has no kind" if port.kind is None else f"its kind {port.kind!r} does not say it"
    return f"{kind} and " + ("it has no unit" if port.unit is None else f"its unit {port.unit!r} does not say it")
