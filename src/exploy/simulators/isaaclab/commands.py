"""The commands of Isaac Lab: what an operator, or the application on the robot, decides."""

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

from exploy.environment.components import Input
from exploy.environment.substitutes import Substitute, substitute
from exploy.simulators.isaaclab.robots import root_body
from exploy.simulators.manager_based.commands import velocity_command
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.robot_ports import RobotPort

_POSE = {"names": ["x", "y", "z", "qw", "qx", "qy", "qz"], "kind": "command"}


def command_ports(manager: Any) -> Iterator[RobotPort]:
    """The commands that observations may read, as they are after the command manager has updated them."""
    for term_name in manager.active_terms:
        name, term = name_part(term_name), manager.get_term(term_name)
        velocity = velocity_command(name, term)
        if velocity is not None:
            yield velocity
        elif _is_pose(term):
            ranges = {key: list(value) for key, value in vars(term.cfg.ranges).items()}
            call = (sys.modules[__name__], pose_with_w_first.__name__, term)
            metadata = {**_POSE, "frame": root_body(term.robot), "ranges": ranges}
            yield RobotPort(Input, f"cmd.se3_pose.{name}", call=call, metadata=metadata)
        elif _has_command(term):
            yield RobotPort(Input, f"cmd.vector.{name}", call=(term, "command"), metadata={"kind": "command"})


def pose_with_w_first(term: Any) -> torch.Tensor:
    """The position and the quaternion (w, x, y, z) that a term commands; Isaac Lab 3 has w last."""
    pose: torch.Tensor = term.pose_command_b
    return torch.cat((pose[:, :3], pose[:, 3:].roll(1, -1)), -1)


def pose_command_substitute() -> Substitute:
    """A substitute for the command of poses that takes the quaternion from what robots get."""
    return substitute(_pose_command().command, pose_with_w_last)


def pose_with_w_last(term: Any) -> torch.Tensor:
    """The command of a pose as Isaac Lab has it."""
    pose = pose_with_w_first(term)
    return torch.cat((pose[:, :3], pose[:, 3:].roll(-1, -1)), -1)


def _pose_command() -> Any:
    return importlib.import_module("isaaclab.envs.mdp.commands.pose_command").UniformPoseCommand


def _is_pose(term: Any) -> bool:
    return isinstance(term, _pose_command()) and type(term).command is _pose_command().command


def _has_command(term: Any) -> bool:
    null = importlib.import_module("isaaclab.envs.mdp.commands.null_command").NullCommand
    return not isinstance(term, null) and isinstance(getattr(type(term), "command", None), property)
