"""Properties of Isaac Lab 3's `ArticulationData` and `RigidObjectData` on Newton in torch, for those of Warp kernels.

The methods here are called with instances of Isaac Lab's own classes. Each computes its value at every read from what a
robot can give, the state of its root: `root_orientation()`, `root_linear_velocity()` and `root_angular_velocity()`.
Values that kernels write to a cache are written to the same memory.
"""

import importlib
import sys
from typing import Any

import torch

from exploy.simulators.rotations import rotated, rotated_back


def root_orientation(data: Any) -> torch.Tensor:
    """The quaternion (w, x, y, z) of the root link; Isaac Lab 3 has w last."""
    return _pose(data)[:, 3:].roll(1, -1)


def root_linear_velocity(data: Any) -> torch.Tensor:
    """Velocity of the origin of the root link, in its own frame; Newton has that of the centre of mass."""
    of_com = rotated_back(_pose(data)[:, 3:], data._root_com_vel_w_ta.torch[:, :3])
    return of_com - _added_by_rotation(data, root_angular_velocity(data))


def root_angular_velocity(data: Any) -> torch.Tensor:
    """Angular velocity of the root link, in its own frame."""
    return rotated_back(_pose(data)[:, 3:], data._root_com_vel_w_ta.torch[:, 3:])


def body_orientation(data: Any, number: int) -> torch.Tensor:
    """The quaternion (w, x, y, z) of a body of an articulation."""
    orientation: torch.Tensor = data.body_link_pose_w.torch[:, number, 3:].roll(1, -1)
    return orientation


def call_of(function: Any, *arguments: Any) -> tuple[Any, ...]:
    """The call of a function of this module, for an Input."""
    return sys.modules[__name__], function.__name__, *arguments


class TorchRootState:
    """Orientation and velocities of the root, gravity and heading; quaternions are (x, y, z, w)."""

    @property
    def root_link_quat_w(self: Any) -> Any:
        """Orientation of the root link."""
        return _array(self, _orientation(self), "quatf")

    @property
    def root_link_vel_w(self: Any) -> Any:
        """Velocity of the root link in the world."""
        orientation = _orientation(self)
        parts = [rotated(orientation, root_linear_velocity(self)), rotated(orientation, root_angular_velocity(self))]
        return _written(self, "root_link_vel_w", torch.cat(parts, -1), "spatial_vectorf")

    @property
    def root_com_pose_w(self: Any) -> Any:
        """Position of the centre of mass of the root, and orientation of the root link."""
        orientation = _orientation(self)
        position = _pose(self)[:, :3] + rotated(orientation, _com_position(self))
        return _written(self, "root_com_pose_w", torch.cat((position, orientation), -1), "transformf")

    @property
    def root_com_lin_vel_w(self: Any) -> Any:
        """Linear velocity of the centre of mass of the root in the world."""
        return _array(self, rotated(_orientation(self), _com_velocity(self)), "vec3f")

    @property
    def root_com_ang_vel_w(self: Any) -> Any:
        """Angular velocity of the root in the world."""
        return _array(self, rotated(_orientation(self), root_angular_velocity(self)), "vec3f")

    @property
    def projected_gravity_b(self: Any) -> Any:
        """Direction of gravity in the frame of the root link; zero where there is no gravity."""
        gravity = self.GRAVITY_VEC_W.torch
        length = torch.linalg.vector_norm(gravity, dim=-1, keepdim=True)
        direction = torch.where(length > 0, gravity / length, torch.zeros_like(gravity))
        return _written(self, "projected_gravity_b", rotated_back(_orientation(self), direction), "vec3f")

    @property
    def heading_w(self: Any) -> Any:
        """Yaw of the forward direction in the world."""
        forward = rotated(_orientation(self), self.FORWARD_VEC_B.torch)
        return _written(self, "heading_w", torch.atan2(forward[:, 1], forward[:, 0]), "float32")

    @property
    def root_link_lin_vel_b(self: Any) -> Any:
        """Linear velocity of the root link in its own frame."""
        _ = self.root_link_vel_w  # which the original computes first, into its own cache
        return _written(self, "root_link_lin_vel_b", root_linear_velocity(self), "vec3f")

    @property
    def root_link_ang_vel_b(self: Any) -> Any:
        """Angular velocity of the root link in its own frame."""
        _ = self.root_link_vel_w  # which the original computes first, into its own cache
        return _written(self, "root_link_ang_vel_b", root_angular_velocity(self), "vec3f")

    @property
    def root_com_lin_vel_b(self: Any) -> Any:
        """Linear velocity of the centre of mass of the root in the frame of the root link."""
        return _written(self, "root_com_lin_vel_b", _com_velocity(self), "vec3f")

    @property
    def root_com_ang_vel_b(self: Any) -> Any:
        """Angular velocity of the root in the frame of the root link."""
        return _written(self, "root_com_ang_vel_b", root_angular_velocity(self), "vec3f")


class TorchArticulationData(TorchRootState):
    """The state of the root, and orientations of bodies."""

    @property
    def body_link_quat_w(self: Any) -> Any:
        """Orientations of all bodies."""
        count = self.body_link_pose_w.torch.shape[1]
        orientations = [body_orientation(self, number).roll(-1, -1) for number in range(count)]
        return _array(self, torch.stack(orientations, 1), "quatf", count)


def outdate(data: Any) -> None:
    """Mark all values as outdated, so that the original computes them again."""
    for name in NAMES:
        buffer = getattr(data, f"_{name}", None)
        if buffer is not None:
            buffer.timestamp = -1.0


NAMES = tuple(name for name, member in vars(TorchRootState).items() if isinstance(member, property))


def _pose(data: Any) -> torch.Tensor:
    """The simulator's own memory: position and quaternion (x, y, z, w) of the root link."""
    pose: torch.Tensor = data._root_link_pose_w_ta.torch
    return pose


def _orientation(data: Any) -> torch.Tensor:
    return root_orientation(data).roll(-1, -1)


def _com_velocity(data: Any) -> torch.Tensor:
    return root_linear_velocity(data) + _added_by_rotation(data, root_angular_velocity(data))


def _added_by_rotation(data: Any, angular_velocity: torch.Tensor) -> torch.Tensor:
    """What the rotation of the root adds to the velocity of its origin, at its centre of mass."""
    added: torch.Tensor = torch.linalg.cross(angular_velocity, _com_position(data).expand_as(angular_velocity))
    return added


def _com_position(data: Any) -> torch.Tensor:
    if not getattr(data, "has_body_ordering", False):
        position: torch.Tensor = data.body_com_pos_b.torch[:, 0]
        return position
    in_order_of_backend = importlib.import_module("warp").to_torch(data._sim_bind_body_com_pos_b)
    first: torch.Tensor = in_order_of_backend[:, 0]
    return first


def _array(data: Any, value: torch.Tensor, kind: str, *more: int) -> Any:
    """A new array with a value, for properties that are views of the simulator's memory."""
    warp, arrays = importlib.import_module("warp"), importlib.import_module("isaaclab.utils.warp")
    array = arrays.ProxyArray(warp.empty((data._num_instances, *more), getattr(warp, kind), data.device))
    array.torch.copy_(value)
    return array


def _written(data: Any, name: str, value: torch.Tensor, kind: str) -> Any:
    """Write a value to its cache, and return the proxy of the cache. A missing cache is made as the original does."""
    array = _cache(data, name, kind)
    array.torch.copy_(value)
    getattr(data, f"_{name}").timestamp = data._sim_timestamp
    return array


def _cache(data: Any, name: str, kind: str) -> Any:
    buffer, proxy = getattr(data, f"_{name}"), f"_{name}_ta"
    if buffer is not None and buffer.data is not None:
        return getattr(data, proxy) if hasattr(data, proxy) else buffer.data
    warp = importlib.import_module("warp")
    arrays = importlib.import_module("isaaclab.utils.warp")
    array = warp.empty(data._num_instances, getattr(warp, kind), data.device)
    if buffer is not None:
        buffer.data = arrays.ProxyArray(array)
        return buffer.data
    setattr(data, f"_{name}", importlib.import_module("isaaclab.utils.buffers").TimestampedBuffer(array))
    setattr(data, proxy, arrays.ProxyArray(array))
    return getattr(data, proxy)
