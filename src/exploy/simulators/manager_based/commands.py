"""Commands that manager-based simulators have in common."""

from typing import Any

import torch

from exploy.environment.components import Input
from exploy.simulators.manager_based.robot_ports import RobotPort, live

_VELOCITIES = ("lin_vel_x", "lin_vel_y", "ang_vel_z")


def velocity_command(name: str, term: Any) -> RobotPort | None:
    """The velocity command of a term, as it is after the command manager has updated it; None if it is no such term."""
    if not isinstance(getattr(term, "vel_command_b", None), torch.Tensor):
        return None
    ranges = {key: list(getattr(term.cfg.ranges, key)) for key in _VELOCITIES}
    fetch = live(term, "vel_command_b")
    return RobotPort(Input, f"cmd.se2_velocity.{name}", fetch=fetch, metadata={"ranges": ranges})
