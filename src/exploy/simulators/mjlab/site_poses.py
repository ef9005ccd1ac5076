"""Orientations of sites, one call for each: mjlab computes those of all sites at once, from matrices."""

import importlib
import sys
from typing import Any

import torch

from exploy.environment.substitutes import Substitute, substitute


def site_poses() -> Substitute:
    """A substitute for the poses of all sites that gets each orientation by a call of its own."""
    return substitute(importlib.import_module("mjlab.entity.data").EntityData.site_pose_w, poses)


def poses(data: Any) -> torch.Tensor:
    """Positions and quaternions (w, x, y, z) of all sites of an entity."""
    positions = data.data.site_xpos[:, data.indexing.site_ids]
    orientations = [orientation(data, number) for number in range(positions.shape[1])]
    return torch.cat([positions, torch.stack(orientations, 1)], -1)


def orientation(data: Any, number: int) -> torch.Tensor:
    """The quaternion (w, x, y, z) of one site of an entity."""
    quat_from_matrix = importlib.import_module("mjlab.utils.lab_api.math").quat_from_matrix
    found: torch.Tensor = quat_from_matrix(data.data.site_xmat[:, int(data.indexing.site_ids[number])])
    return found


def orientation_call(data: Any, number: int) -> tuple[Any, ...]:
    """The call that gives the orientation of a site, for an Input."""
    return sys.modules[__name__], orientation.__name__, data, number
