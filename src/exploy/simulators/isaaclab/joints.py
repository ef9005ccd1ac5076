"""The joints of Isaac Lab's robots, with the gains of their actuators."""

import importlib
from typing import Any

import torch

from exploy.simulators.manager_based.joints import Joint


def joints_of(robot: Any) -> list[Joint]:
    """The joints in Isaac Lab's order, which may be another one than Newton's."""
    types = importlib.import_module("newton").JointType
    slides = {int(types.PRISMATIC): True, int(types.REVOLUTE): False}
    view, of_actuators = robot.root_view, gains(robot)
    kinds = dict(zip(view.model.joint_label, view.model.joint_type.numpy().tolist(), strict=True))
    by_name = {name: kinds[label] for name, label in zip(view.joint_names, view.joint_labels, strict=True)}
    return [Joint(name, slides.get(by_name.get(name, -1)), of_actuators.get(name)) for name in robot.joint_names]


def gains(robot: Any) -> dict[str, tuple[float, float]]:
    """Stiffness and damping of each joint that has an actuator, as configured, not as events have changed them."""
    resolve = importlib.import_module("isaaclab.actuators.actuator_base").resolve_joint_parameter
    found: dict[str, tuple[float, float]] = {}
    for name, joints in robot.actuators._group_joint_names.items():
        cfg = robot.cfg.actuators[name]
        values = []
        for parameter, native in (("stiffness", "kp"), ("damping", "kd")):
            current = _current(robot, name, parameter, native)
            values.append(resolve(getattr(cfg, parameter), current, joints, 1, "cpu")[0].tolist())
        found |= {joint: (float(kp), float(kd)) for joint, kp, kd in zip(joints, *values, strict=True)}
    return found


def _current(robot: Any, group: str, parameter: str, native: str) -> torch.Tensor:
    """The value of a parameter for the joints of a group; zero for models without it, such as networks."""
    actuator, count = robot.actuators[group], len(robot.actuators._group_joint_names[group])
    if isinstance(getattr(actuator, parameter, None), torch.Tensor):
        value: torch.Tensor = getattr(actuator, parameter)[:1]
        return value
    if group in robot.actuators._native_group_names:
        try:
            read = importlib.import_module("isaaclab.actuators.newton").read_group_parameter
            value = read(robot.actuators, group, "controller", native)[:1]
            return value
        except ValueError:  # the controller has no such parameter
            pass
    return torch.zeros(1, count)
