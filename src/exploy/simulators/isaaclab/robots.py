"""What the robots and objects of Isaac Lab give and get: joints, frames, velocities, targets of actuators."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from exploy.environment.components import Input
from exploy.simulators import articulation_data
from exploy.simulators.isaaclab.joints import joints_of
from exploy.simulators.manager_based import joints
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.robot_ports import RobotPort

_UNLIMITED = 1e5  # Newton's limits of joints without a range are larger

_WORLD = "world"
_POSITION = {"unit": "m", "frame": _WORLD}
_QUATERNION = {"names": ["w", "x", "y", "z"], "frame": _WORLD}
_W_LAST = {"names": ["x", "y", "z", "w"], "frame": _WORLD}


def joint_ports(name: str, robot: Any) -> Iterator[RobotPort]:
    """Positions, velocities, accelerations and efforts of the joints of an articulation."""
    data, group, found = robot.data, f"obj.{name_part(name)}.joints", joints_of(robot)
    ranges = joints.limits(data.joint_pos_limits.torch[0].double().tolist(), _UNLIMITED)
    names = {"joint_names": list(robot.joint_names)}
    for port, fetch, units, more in (
        ("pos", lambda: data.joint_pos.torch, ("m", "rad"), ranges),
        ("vel", lambda: data.joint_vel.torch, ("m/s", "rad/s"), {}),
        ("acc", lambda: data.joint_acc.torch, ("m/s^2", "rad/s^2"), {}),
        ("effort", lambda: robot.actuators.applied_effort.torch, ("N", "Nm"), {}),
    ):
        metadata = {**joints.units(found, *units), **more}
        yield RobotPort(Input, f"{group}.{port}", fetch, None, metadata, group, names)


def root_body(asset: Any) -> str:
    """The name of the root body of an asset: Newton's first one, which `body_ordering` may place elsewhere."""
    return str(getattr(asset, "backend_body_names", asset.body_names)[0])


def frame_ports(name: str, asset: Any) -> Iterator[RobotPort]:
    """Poses of bodies. That of a base that is fixed to the world is a constant.

    Quaternions are offered twice: with w first, as robots have them, and as they are in Isaac Lab's poses, where code
    reads these whole.
    """
    data, prefix, root = asset.data, f"obj.{name_part(name)}", root_body(asset)
    if not _is_fixed(asset):
        orientation = articulation_data.call_of(articulation_data.root_orientation, data)
        yield from _pose(f"{prefix}.{name_part(root)}", lambda: data.root_link_pose_w.torch, orientation)
    if not hasattr(data, "body_link_pose_w") or data.body_link_pose_w.torch.data_ptr() == _pointer(data):
        return
    for number, body in enumerate(asset.body_names):
        if body == root and _is_fixed(asset):
            continue
        orientation = articulation_data.call_of(articulation_data.body_orientation, data, number)
        base = f"{prefix}.{name_part(body)}" if body != root else f"{prefix}.bodies.{name_part(body)}"
        yield from _pose(base, _row(data, number), orientation)


def velocity_ports(name: str, asset: Any) -> Iterator[RobotPort]:
    """Velocities of the base, and of the centres of mass of all bodies in the frame of the world."""
    data, prefix = asset.data, f"obj.{name_part(name)}"
    if not _is_fixed(asset):
        base = f"{prefix}.{name_part(root_body(asset))}"
        for port, function, unit in (
            ("lin_vel_b_rt_w_in_b", articulation_data.root_linear_velocity, "m/s"),
            ("ang_vel_b_rt_w_in_b", articulation_data.root_angular_velocity, "rad/s"),
        ):
            metadata = {"unit": unit, "frame": root_body(asset)}
            call = articulation_data.call_of(function, data)
            yield RobotPort(Input, f"{base}.{port}", call=call, metadata=metadata)
    if len(asset.body_names) > 1:
        for port, part, unit in (
            ("com_lin_vel_w", slice(3), "m/s"),
            ("com_ang_vel_w", slice(3, 6), "rad/s"),
        ):
            fetch = _part_of_velocities(data, part)
            yield RobotPort(Input, f"{prefix}.bodies.{port}", fetch, None, {"unit": unit, "frame": _WORLD})


def target_ports(name: str, robot: Any) -> Iterator[RobotPort]:
    """The targets of the joints with actuators, with the gains of these, in the order of joints."""
    command = robot.actuators.target_command
    fetch = {
        "pos": lambda: command.position.torch,
        "vel": lambda: command.velocity.torch,
        "effort": lambda: command.effort.torch,
    }
    yield from joints.target_ports(name, joints_of(robot), fetch)


def _pose(base: str, fetch: Callable[[], torch.Tensor], orientation: tuple[Any, ...]) -> Iterator[RobotPort]:
    yield RobotPort(Input, f"{base}.pos_b_rt_w_in_w", lambda: fetch()[:, :3], None, _POSITION)
    yield RobotPort(Input, f"{base}.w_Q_b", None, orientation, _QUATERNION)
    yield RobotPort(Input, f"{base}.quat_xyzw", lambda: fetch()[:, 3:], None, _W_LAST)


def _row(data: Any, number: int) -> Callable[[], torch.Tensor]:
    def fetch() -> torch.Tensor:
        value: torch.Tensor = data.body_link_pose_w.torch[:, number]
        return value

    return fetch


def _part_of_velocities(data: Any, part: slice) -> Callable[[], torch.Tensor]:
    def fetch() -> torch.Tensor:
        value: torch.Tensor = data.body_com_vel_w.torch[..., part]
        return value

    return fetch


def _pointer(data: Any) -> int:
    return int(data.root_link_pose_w.torch.data_ptr())


def _is_fixed(asset: Any) -> bool:
    return bool(getattr(asset, "is_fixed_base", False))
