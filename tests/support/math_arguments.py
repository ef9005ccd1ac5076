"""What the arguments of functions in the `utils/math.py` of mjlab and Isaac Lab are like, by their names."""

from collections.abc import Mapping
from typing import Any

import torch

from tests.support.function_runs import Draw
from tests.support.library_functions import Values

_ROWS = 4


def normal(*shape: int) -> Draw:
    """Random values."""
    return lambda generator: torch.randn(shape, generator=generator)


def above(low: float, *shape: int) -> Draw:
    """Random values above a number."""
    return lambda generator: low + torch.rand(shape, generator=generator)


def quaternion(*shape: int) -> Draw:
    """Random unit quaternions."""
    return lambda generator: torch.nn.functional.normalize(torch.randn(*shape, 4, generator=generator), dim=-1)


def rotation(*shape: int) -> Draw:
    """Random rotation matrices."""
    return lambda generator: torch.linalg.qr(torch.randn(*shape, 3, 3, generator=generator))[0]


def pose(*shape: int) -> Draw:
    """Random matrices of poses."""

    def drawn(generator: torch.Generator) -> torch.Tensor:
        made = torch.eye(4).repeat(*shape, 1, 1) if shape else torch.eye(4)
        made[..., :3, :3] = rotation(*shape)(generator)
        made[..., :3, 3] = torch.randn(*shape, 3, generator=generator)
        return made

    return drawn


def camera(*shape: int) -> Draw:
    """Random matrices of cameras."""

    def drawn(generator: torch.Generator) -> torch.Tensor:
        made = torch.zeros(*shape, 3, 3)
        made[..., 0, 0], made[..., 1, 1] = (5 + torch.rand(*shape, generator=generator) for _ in range(2))
        made[..., 0, 2], made[..., 1, 2] = (3 + torch.rand(*shape, generator=generator) for _ in range(2))
        made[..., 2, 2] = 1
        return made

    return drawn


ARGUMENTS: Mapping[str, Any] = {
    "angle": normal(_ROWS),
    "angles": lambda generator: 10 * torch.randn(_ROWS, 3, generator=generator),
    "axis": normal(_ROWS, 3),
    "_axis_angle_rotation.axis": Values(("X", "Y", "Z")),
    "body_com_pos_b": normal(_ROWS, 5, 3),
    "body_com_quat_b": quaternion(_ROWS, 5),
    "body_inertias_local": normal(_ROWS, 5, 9),
    "body_inv_mass_local": normal(_ROWS, 5),
    "body_pos_b": normal(_ROWS, 5, 3),
    "body_quat_b": quaternion(_ROWS, 5),
    "convention": Values(("XYZ", "ZYX", "ZXZ")),
    "delta": normal(_ROWS, 3),
    "delta_pose": normal(_ROWS, 6),
    "depth": above(1, _ROWS, 6, 8),
    "device": "cpu",
    "euler_angles": normal(_ROWS, 3),
    "eyes": normal(_ROWS, 3),
    "frame_A": pose(),
    "frame_B": pose(),
    "h_range": (0.1, 0.5),
    "intrinsics": camera(_ROWS),
    "keys": ("x", "y"),
    "lower": lambda generator: -1 - torch.rand(_ROWS, 3, generator=generator),
    "mag": Values((2.5, -2.5)),
    "matrix": rotation(_ROWS),
    "mean": normal(_ROWS, 3),
    "num": 4,
    "num_steps": 5,
    "interpolate_poses.num_steps": Values((5, 0)),
    "orientation": quaternion(_ROWS),
    "other": normal(_ROWS),
    "pitch": normal(_ROWS),
    "points": normal(_ROWS, 5, 3),
    "pos": normal(_ROWS, 3),
    "pose": pose(_ROWS),
    "pose_1": pose(),
    "pose_2": pose(),
    "pose_A_in_B": pose(_ROWS),
    "pose_in_A": pose(_ROWS),
    "q": quaternion(_ROWS),
    "q01": quaternion(_ROWS),
    "q02": quaternion(_ROWS),
    "q1": quaternion(_ROWS),
    "q12": quaternion(_ROWS),
    "q2": quaternion(_ROWS),
    "quat": quaternion(_ROWS),
    "quat_slerp.q1": quaternion(),
    "quat_slerp.q2": quaternion(),
    "quaternions": quaternion(_ROWS),
    "R1": rotation(),
    "R2": rotation(),
    "radius": 0.5,
    "ranges": {"x": (-1.0, 1.0), "y": (0.0, 0.5)},
    "roll": normal(_ROWS),
    "rot": rotation(_ROWS),
    "is_identity_pose.pos": normal(1, 3),
    "is_identity_pose.rot": quaternion(1),
    "sample_triangle.lower": -1.0,
    "sample_triangle.upper": 1.0,
    "size": (_ROWS, 3),
    "source_pos": normal(_ROWS, 3),
    "source_rot": quaternion(_ROWS),
    "src_poses": pose(6),
    "std": above(0.1, _ROWS, 3),
    "t01": normal(_ROWS, 3),
    "t02": normal(_ROWS, 3),
    "t12": normal(_ROWS, 3),
    "targets": normal(_ROWS, 3),
    "tau": Values((0.3, 0.0, 1.0)),
    "upper": above(1, _ROWS, 3),
    "v": normal(_ROWS, 3),
    "v0": normal(_ROWS, 3),
    "vec": normal(_ROWS, 3),
    "w0": normal(_ROWS, 3),
    "x": normal(_ROWS, 3),
    "yaw": normal(_ROWS),
}
