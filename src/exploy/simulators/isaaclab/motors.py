"""The models of motors of Isaac Lab that run in torch."""

import importlib
from collections.abc import Iterator
from typing import Any

import torch

from exploy.errors import InvalidEnvironmentError
from exploy.simulators.isaaclab.joints import joints_of
from exploy.simulators.manager_based import joints
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.memories import memory, require_one_delay, ring_memories
from exploy.simulators.manager_based.robot_ports import RobotPort

RANDOM_GAINS = ("randomize_actuator_gains",)  # events that draw parameters of motors
_STATE = ("sea_hidden_state", "sea_cell_state", "_joint_pos_error_history", "_joint_vel_history")  # of networks
_DELAYS = ("positions_delay_buffer", "velocities_delay_buffer", "efforts_delay_buffer")


class IsaacLabMotors:
    """The explicit models of motors of an environment, which compute efforts from targets in every simulation step.

    Args:
        env: The environment.

    Raises:
        InvalidEnvironmentError: If there is none, Newton runs them, or a delay of commands is drawn at random.
    """

    def __init__(self, env: Any):
        self._dt = float(env.physics_dt)
        self._robots = dict(env.scene.articulations)
        for name, robot in self._robots.items():
            _require_models(name, robot)

    def compute(self) -> None:
        """Compute the efforts of all joints from their targets."""
        for robot in self._robots.values():
            robot.actuators.compute(self._dt)

    def reset(self) -> None:
        """Forget what the models keep: a reset from outside runs them once more, the end of an episode does not."""
        for robot in self._robots.values():
            robot.actuators.reset()

    def ports(self) -> Iterator[RobotPort]:
        """The efforts, and what the models keep from step to step."""
        for name, robot in self._robots.items():
            yield joints.effort_port(name, joints_of(robot), _applied_effort(robot))
            for group, actuator in robot.actuators.items():
                yield from _memories(f"motors.{name_part(name)}.{name_part(group)}", actuator)


def _applied_effort(robot: Any) -> Any:
    return lambda: robot.actuators.applied_effort.torch


def _memories(name: str, actuator: Any) -> Iterator[RobotPort]:
    for attribute in _STATE:
        if isinstance(getattr(actuator, attribute, None), torch.Tensor):
            yield memory(f"{name}.{attribute.removeprefix('_')}", actuator, attribute)
    for attribute in _DELAYS:
        if hasattr(actuator, attribute):
            cfg, said = actuator.cfg, f"delay of the motors {name}"
            require_one_delay(said, cfg.min_delay, cfg.max_delay, "min_delay and max_delay of the actuator")
            yield from ring_memories(f"{name}.{attribute.removesuffix('_delay_buffer')}", getattr(actuator, attribute))


def _require_models(name: str, robot: Any) -> None:
    if robot.actuators._control.native_actuator_path_active or robot.actuators._native_group_names:
        raise InvalidEnvironmentError(
            f"Newton runs the actuators of {name} itself, so their efforts cannot be in the file. Set "
            "cfg.sim.use_newton_actuators = False before the environment is made, or leave motors=True out: then the "
            "file has the targets."
        )
    base = importlib.import_module("isaaclab.actuators.actuator_pd").IdealPDActuator
    implicit = [group for group, actuator in robot.actuators.items() if not isinstance(actuator, base)]
    if implicit:
        raise InvalidEnvironmentError(
            f"The simulator itself computes the efforts of the actuators {', '.join(implicit)} of {name} (implicit "
            "actuators), so they cannot be in the file. Leave motors=True out: then the file has the targets."
        )
