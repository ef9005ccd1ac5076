"""The models of motors of mjlab that run in torch, and the delays of commands to them."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from exploy.errors import InvalidEnvironmentError
from exploy.simulators.manager_based import joints
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.memories import memory, require_one_delay, ring_memories
from exploy.simulators.manager_based.robot_ports import RobotPort
from exploy.simulators.mjlab.robots import joints_of

RANDOM_GAINS = ("pd_gains", "effort_limits")  # events that draw parameters of motors
_HISTORIES = ("_pos_error_history", "_vel_history")  # of networks


class MjlabMotors:
    """The models of motors of an environment that compute efforts in torch.

    Args:
        env: The environment.

    Raises:
        InvalidEnvironmentError: If there is none: MuJoCo computes the efforts of its own actuators.
    """

    def __init__(self, env: Any):
        self._sim = env.sim
        self._entities = {name: item for name, item in env.scene.entities.items() if _models(item)}
        if not self._entities:
            raise InvalidEnvironmentError(
                "MuJoCo itself computes the efforts of all actuators of the environment, so they cannot be in the "
                "file. Leave motors=True out: then the file has the targets, with the gains."
            )

    def compute(self) -> None:
        """Compute the efforts of all joints from their targets."""
        for entity in self._entities.values():
            entity.write_data_to_sim()

    def reset(self) -> None:
        """Do nothing: all resets of mjlab run the models once."""

    def ports(self) -> Iterator[RobotPort]:
        """The efforts, and what the models keep from step to step.

        Raises:
            InvalidEnvironmentError: If a delay is drawn at random.
        """
        for name, entity in self._entities.items():
            models = _models(entity)
            of_entity = {joint.name: joint for joint in joints_of(entity, self._sim)}
            targets = [target for model in models for target in model.target_names]
            driven = [of_entity.get(target, joints.Joint(target, None)) for target in targets]
            ids = torch.cat([model.global_ctrl_ids for model in models])
            yield joints.effort_port(name, driven, self._controls(ids))
            delays: set[int] = set()
            for number, model in enumerate(models):
                yield from _memories(f"motors.{name_part(name)}.{number}", model, delays)

    def _controls(self, ids: torch.Tensor) -> Callable[[], torch.Tensor]:
        def fetch() -> torch.Tensor:
            controls: torch.Tensor = self._sim.data.ctrl[:, ids]
            return controls

        return fetch


def _models(entity: Any) -> list[Any]:
    """The actuators of an entity whose efforts are computed in torch."""
    groups = getattr(getattr(entity, "_fused_actuator_group", None), "_groups", ())
    base = importlib.import_module("mjlab.actuator.pd_actuator").IdealPdActuator  # not those of MuJoCo
    custom = [actuator for actuator in getattr(entity, "_custom_actuators", ()) if isinstance(actuator, base)]
    return [*(actuator for group in groups for actuator in group.absorbed_actuators), *custom]


def _memories(name: str, model: Any, delays: set[int]) -> Iterator[RobotPort]:
    delay = model._delay_buffer
    if delay is not None and id(delay) not in delays:  # fused actuators share one
        delays.add(id(delay))
        settings = "delay_min_lag and delay_max_lag of the actuator"
        require_one_delay(f"delay of the motors {name}", delay.min_lag, delay.max_lag, settings)
        yield from ring_memories(f"{name}.delay", delay._buffer)
        yield memory(f"{name}.delay.lag", delay, "_current_lags")
        yield memory(f"{name}.delay.steps", delay, "_step_count")
    for history in _HISTORIES:
        if getattr(model, history, None) is not None:
            yield from ring_memories(f"{name}.{history.strip('_')}", getattr(model, history))
