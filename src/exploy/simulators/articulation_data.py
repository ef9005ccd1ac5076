"""Properties of Isaac Lab 3's `ArticulationData` on Newton in torch, for those that Warp kernels compute on read.

The methods here are called with instances of Isaac Lab's own class. Each computes its value at every read, writes it to
the memory that the kernel writes to, and returns the same `ProxyArray`.
"""

import importlib
from typing import Any

import torch

from exploy.simulators.rotations import rotated, rotated_back


class TorchArticulationData:
    """Velocities and poses of the root, gravity and heading; quaternions are (x, y, z, w)."""

    @property
    def root_link_vel_w(self: Any) -> Any:
        """Velocity of the root link: that of its centre of mass, and what the rotation adds between the two."""
        velocity, pose = self.root_com_vel_w.torch, self.root_link_pose_w.torch
        arm = rotated(pose[:, 3:], -_root_com_position(self))
        linear = velocity[:, :3] + torch.linalg.cross(velocity[:, 3:], arm)
        return _written(self, "root_link_vel_w", torch.cat((linear, velocity[:, 3:]), -1), "spatial_vectorf")

    @property
    def root_com_pose_w(self: Any) -> Any:
        """Position of the centre of mass of the root, and orientation of the root link."""
        pose = self.root_link_pose_w.torch
        position = pose[:, :3] + rotated(pose[:, 3:], _root_com_position(self))
        return _written(self, "root_com_pose_w", torch.cat((position, pose[:, 3:]), -1), "transformf")

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
        return _turned(self, "root_link_lin_vel_b", self.root_link_lin_vel_w.torch)

    @property
    def root_link_ang_vel_b(self: Any) -> Any:
        """Angular velocity of the root link in its own frame."""
        return _turned(self, "root_link_ang_vel_b", self.root_link_ang_vel_w.torch)

    @property
    def root_com_lin_vel_b(self: Any) -> Any:
        """Linear velocity of the centre of mass of the root in the frame of the root link."""
        return _turned(self, "root_com_lin_vel_b", self.root_com_lin_vel_w.torch)

    @property
    def root_com_ang_vel_b(self: Any) -> Any:
        """Angular velocity of the centre of mass of the root in the frame of the root link."""
        return _turned(self, "root_com_ang_vel_b", self.root_com_ang_vel_w.torch)


NAMES = tuple(name for name, member in vars(TorchArticulationData).items() if isinstance(member, property))


def outdate(data: Any) -> None:
    """Mark all values as outdated, so that the original computes them again."""
    for name in NAMES:
        buffer = getattr(data, f"_{name}")
        if buffer is not None:
            buffer.timestamp = -1.0


def _root_com_position(data: Any) -> torch.Tensor:
    if not data.has_body_ordering:
        position: torch.Tensor = data.body_com_pos_b.torch[:, 0]
        return position
    in_order_of_backend = importlib.import_module("warp").to_torch(data._sim_bind_body_com_pos_b)
    first: torch.Tensor = in_order_of_backend[:, 0]
    return first


def _orientation(data: Any) -> torch.Tensor:
    orientation: torch.Tensor = data.root_link_pose_w.torch[:, 3:]
    return orientation


def _turned(data: Any, name: str, velocity: torch.Tensor) -> Any:
    return _written(data, name, rotated_back(_orientation(data), velocity), "vec3f")


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
