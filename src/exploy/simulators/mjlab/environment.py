"""The adapter of mjlab's environments."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from exploy.environment.substitutes import Substitute
from exploy.errors import InvalidEnvironmentError, SensorBiasWarning
from exploy.simulators.manager_based.environment import ManagerBasedEnvironment
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.random_events import GAINS, warn_of_random_events
from exploy.simulators.manager_based.robot_ports import RobotPort
from exploy.simulators.mjlab.commands import command_ports
from exploy.simulators.mjlab.delays import delay_memories
from exploy.simulators.mjlab.motors import RANDOM_GAINS, MjlabMotors
from exploy.simulators.mjlab.nan_checks import checks_for_nan
from exploy.simulators.mjlab.robots import frame_ports, joint_ports, target_ports, velocity_ports
from exploy.simulators.mjlab.sensors import sensor_ports
from exploy.simulators.mjlab.site_poses import site_poses
from exploy.simulators.mjlab_substitutes import mjlab_substitutes

_BIAS = "encoder_bias"


class MjlabEnvironment(ManagerBasedEnvironment):
    """A `ManagerBasedRlEnv` of mjlab 1.6, with all components registered.

    Args:
        env: The environment, with one robot (`cfg.scene.num_envs = 1`), or the wrapper that the runner has.
        groups: The groups of observations that the policy reads: `obs_groups["actor"]` of the runner's configuration.
        clip_actions: `clip_actions` of the runner's configuration; that of the wrapper if None.
        motors: Whether the file computes the efforts of actuator models in torch as well, at the rate of the
            simulation: for robots whose drives take torques, and for other simulators.
        register: Whether to register all components; if not, `exploy.discover()` offers them one by one.

    Raises:
        InvalidEnvironmentError: If there are several robots, it is not on the CPU, a group does not exist, a delay is
            random, or motors are wanted and MuJoCo computes all of them.
        CaptureError: If the observation or action code cannot be captured; the message names the line.

    Example:
        >>> env = MjlabEnvironment(ManagerBasedRlEnv(cfg, device="cpu"))
        >>> exploy.export(env, actor, "policy.onnx")
    """

    def __init__(
        self,
        env: Any,
        groups: Sequence[str] = ("actor",),
        clip_actions: float | None = None,
        *,
        motors: bool = False,
        register: bool = True,
    ):
        clip_actions = getattr(env, "clip_actions", None) if clip_actions is None else clip_actions
        env = env.unwrapped
        _require_cpu(env)
        super().__init__(env, groups, clip_actions, MjlabMotors(env) if motors else None, register)
        _warn_of_biases(env)
        if motors:
            warn_of_random_events(env.event_manager, RANDOM_GAINS, GAINS)

    @property
    def sim_dt(self) -> float:
        """The time of a simulation step in seconds."""
        return float(self.env.physics_dt)

    def base_names(self) -> dict[str, str]:
        """The first body of each articulation."""
        return {
            name_part(name): entity.body_names[0]
            for name, entity in self.env.scene.entities.items()
            if entity.is_articulated
        }

    def robot_ports(self) -> Iterator[RobotPort]:
        """Joints, bodies, sensors and commands, and the targets of actuators."""
        env = self.env
        for name, entity in env.scene.entities.items():
            if entity.is_articulated:
                yield from joint_ports(name, entity, env.sim)
            yield from frame_ports(name, entity, env.sim)
            yield from velocity_ports(name, entity)
            if entity.is_actuated:
                yield from target_ports(name, entity, env.sim)
        yield from sensor_ports(env, self._groups)
        yield from command_ports(env.command_manager)

    def delay_memories(self, group: str, term: str, buffer: Any) -> Iterator[RobotPort]:
        """Frames, lag and steps."""
        return delay_memories(group, term, buffer)

    def substitutes(self) -> list[Substitute]:
        """Those for ring buffers and delays, for poses of sites, and for checks of observations for NaN."""
        return [*mjlab_substitutes(), site_poses(), checks_for_nan()]

    def sensor_faults(self) -> dict[str, tuple[Any, str]]:
        """The biases of encoders."""
        entities = self.env.scene.entities.items()
        return {f"{name_part(name)}.{_BIAS}": (item.data, _BIAS) for name, item in entities if item.is_articulated}


def _require_cpu(env: Any) -> None:
    if torch.device(env.device).type != "cpu":
        raise InvalidEnvironmentError(
            f"The environment is on {env.device}, where graphs of CUDA hide what it computes. Make it for the export "
            'with device="cpu"; the weights of the policy do not change.'
        )


def _warn_of_biases(env: Any) -> None:
    biased = {
        name: float(entity.data.encoder_bias.abs().max())
        for name, entity in env.scene.entities.items()
        if entity.is_articulated and entity.data.encoder_bias.any()
    }
    manager = env.event_manager
    named = {name: manager.get_term_cfg(name) for names in manager.active_terms.values() for name in names}
    events = [f"{name} ({cfg.mode})" for name, cfg in named.items() if getattr(cfg.func, "__name__", "") == _BIAS]
    if not biased and not events:
        return
    sizes = [f"{name} has up to {size:.3g} now" for name, size in biased.items()]
    warnings.warn(
        "Simulated biases of encoders are left out, because the robot's own differ: "
        f"{'; '.join([*(f'event {event}' for event in events), *sizes])}. They are zero while exploy runs the "
        "environment, in evaluations too, and are then put back.",
        SensorBiasWarning,
        stacklevel=3,
    )
