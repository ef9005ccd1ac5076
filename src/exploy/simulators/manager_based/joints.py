"""Inputs and Outputs of the joints of a robot: units, limits, names and gains, alike for all simulators."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from exploy.environment.components import Output
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.robot_ports import RobotPort

_MARGIN = 0.1  # of the range of a joint: simulated stops are soft


@dataclass(frozen=True)
class Joint:
    """A joint of a robot.

    Attributes:
        name: Its name.
        slides: Whether it slides (m, N) or turns (rad, Nm); None if neither.
        gains: Stiffness and damping, if it has an actuator.
        gear: What the simulator multiplies targets of effort by.
        position_gear: What it divides targets of position and velocity by, before it compares them with the joint.
    """

    name: str
    slides: bool | None
    gains: tuple[float, float] | None = None
    gear: float = 1.0
    position_gear: float = 1.0


def units(joints: Sequence[Joint], slide: str, hinge: str) -> dict[str, Any]:
    """The unit of all joints, or that of each if they differ; nothing if one neither slides nor turns."""
    found = [slide if joint.slides else hinge for joint in joints]
    if not found or any(joint.slides is None for joint in joints):
        return {}
    return {"unit": found[0]} if len(set(found)) == 1 else {"units": found}


def limits(ranges: Sequence[tuple[float, float]], unlimited: float = math.inf) -> dict[str, Any]:
    """The range of each joint, a tenth wider.

    Args:
        ranges: The lower and the upper limit of each joint.
        unlimited: Joints have no range if a limit is as large as this.
    """
    found: list[list[float | None]] = []
    for low, high in ranges:
        margin = _MARGIN * (high - low)
        is_limited = max(abs(low), abs(high)) < unlimited
        found.append([low - margin, high + margin] if is_limited else [None, None])
    return {"limits": found}


def target_ports(
    robot: str, joints: Sequence[Joint], fetch: Mapping[str, Callable[[], torch.Tensor]]
) -> Iterator[RobotPort]:
    """The targets of the joints that have actuators, with their gains in the same order.

    Args:
        robot: The name of the robot.
        joints: All joints of the robot.
        fetch: Callbacks for the targets "pos", "vel" and "effort" of all joints.
    """
    ids = [index for index, joint in enumerate(joints) if joint.gains is not None]
    if not ids:
        return
    actuated = [joints[index] for index in ids]
    gains = [joint.gains for joint in actuated if joint.gains is not None]
    group = f"output.joint_targets.{name_part(robot)}"
    metadata = {
        "type": "joint_targets",
        "names": [joint.name for joint in actuated],
        "stiffness": [stiffness for stiffness, _ in gains],
        "damping": [damping for _, damping in gains],
    }
    for port, of_kind, on_stop in (
        ("pos", ("m", "rad"), "hold"),
        ("vel", ("m/s", "rad/s"), "zero"),
        ("effort", ("N", "Nm"), "zero"),
    ):
        described = _geared([joint.gear if port == "effort" else joint.position_gear for joint in actuated])
        of_port = {**(described or units(actuated, *of_kind)), "on_stop": on_stop}
        callback = columns(fetch[port], ids, len(joints))
        yield RobotPort(Output, f"{group}.{port}", callback, None, of_port, group, metadata)


def _geared(gears: list[float]) -> dict[str, Any]:
    """The gears between targets and joints; they are in place of a unit, because targets are not those of joints."""
    return {"gear": gears} if any(gear != 1.0 for gear in gears) else {}


def effort_port(robot: str, joints: Sequence[Joint], fetch: Callable[[], torch.Tensor]) -> RobotPort:
    """The efforts that models of motors compute for some joints."""
    metadata = {"kind": "effort", **units(joints, "N", "Nm"), "names": [joint.name for joint in joints]}
    return RobotPort(Output, f"output.joint_efforts.{name_part(robot)}", fetch, None, {**metadata, "on_stop": "zero"})


def columns(fetch: Callable[[], torch.Tensor], ids: Sequence[int], count: int) -> Callable[[], torch.Tensor]:
    """A callback for some columns of a tensor that has as many as there are joints."""
    return fetch if len(ids) == count else lambda: fetch()[:, list(ids)]
