"""Rotations of vectors by quaternions (x, y, z, w), as Warp computes them."""

import torch


def rotated(quaternion: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Rotate vectors by quaternions of length 1."""
    axis, w = quaternion[..., :3], quaternion[..., 3:]
    along, across = (axis * vector).sum(-1, keepdim=True), torch.linalg.cross(axis, vector)
    turned: torch.Tensor = vector * (2.0 * w * w - 1.0) + 2.0 * (axis * along + w * across)
    return turned


def rotated_back(quaternion: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Rotate vectors by the inverse of quaternions of length 1: from the world to the body."""
    return rotated(torch.cat((-quaternion[..., :3], quaternion[..., 3:]), -1), vector)
