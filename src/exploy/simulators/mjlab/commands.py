"""The commands of mjlab: what an operator, or the application on the robot, decides."""

from collections.abc import Iterator
from typing import Any

import torch

from exploy.environment.components import Input
from exploy.simulators.manager_based.commands import velocity_command
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.robot_ports import RobotPort, live

_TARGETS = {  # tensors of command terms, and what they are called as ports
    "target_pos": ("position", {"unit": "m", "frame": "world"}),
    "target_selection": ("selection", {}),
}
_OF_MOTIONS = (  # properties of a motion, at the step that is due
    "command", "anchor_pos_w", "anchor_quat_w", "anchor_lin_vel_w", "anchor_ang_vel_w",
    "body_pos_w", "body_quat_w", "body_lin_vel_w", "body_ang_vel_w",
)  # fmt: skip


def command_ports(manager: Any) -> Iterator[RobotPort]:
    """The commands that observations may read, as they are after the command manager has updated them."""
    for name in manager.active_terms:
        yield from _ports_of(name_part(name), manager.get_term(name))


def _ports_of(name: str, term: Any) -> Iterator[RobotPort]:
    velocity = velocity_command(name, term)
    if velocity is not None:
        yield velocity
        return
    if hasattr(term, "motion") and isinstance(getattr(term, "time_steps", None), torch.Tensor):
        # The file holds the motion; the application says which frame is due, so that it can pause, repeat or stop it.
        last = int(term.motion.time_step_total) - 1
        frame = {"kind": "command", "limits": [0, last]}
        step = f"cmd.time_step.{name}"
        yield RobotPort(Input, step, fetch=live(term, "time_steps"), metadata=frame)
        for attribute in _OF_MOTIONS:
            port = f"cmd.reference.{name}.{attribute}"
            yield RobotPort(Input, port, call=(term, attribute), metadata={"kind": "command"}, instead_of=step)
        return
    known = [attribute for attribute in _TARGETS if isinstance(getattr(term, attribute, None), torch.Tensor)]
    for attribute in known:
        kind, metadata = _TARGETS[attribute]
        described = {"kind": "command", **metadata}
        yield RobotPort(Input, f"cmd.{kind}.{name}", fetch=live(term, attribute), metadata=described)
    if not known:
        yield RobotPort(Input, f"cmd.vector.{name}", call=(term, "command"), metadata={"kind": "command"})
