"""The adapter of Isaac Lab's environments."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from exploy.environment.substitutes import Substitute
from exploy.errors import InvalidEnvironmentError
from exploy.simulators.isaaclab.commands import command_ports, pose_command_substitute
from exploy.simulators.isaaclab.delays import delay_memories
from exploy.simulators.isaaclab.motors import RANDOM_GAINS, IsaacLabMotors
from exploy.simulators.isaaclab.robots import frame_ports, joint_ports, root_body, target_ports, velocity_ports
from exploy.simulators.isaaclab.sensors import height_scan_substitute, sensor_ports
from exploy.simulators.isaaclab_substitutes import isaaclab_substitutes
from exploy.simulators.manager_based.environment import ManagerBasedEnvironment
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.random_events import GAINS, warn_of_random_events
from exploy.simulators.manager_based.robot_ports import RobotPort

MOVED_CENTRES = ("randomize_rigid_body_com",)  # events that move centres of mass
CENTRES = "centres of mass, which velocities of bodies in Isaac Lab are those of"


class IsaacLabEnvironment(ManagerBasedEnvironment):
    """A `ManagerBasedRLEnv` of Isaac Lab 3.0 on Newton, with all components registered.

    Args:
        env: The environment, with one robot (`cfg.scene.num_envs = 1`), or the wrapper that the runner has.
        groups: The groups of observations that the policy reads: `obs_groups["actor"]` of the runner's configuration.
        clip_actions: `clip_actions` of the runner's configuration; that of the wrapper if None.
        motors: Whether the file computes the efforts of explicit actuator models as well, at the rate of the
            simulation: for robots whose drives take torques, and for other simulators. Needs
            `cfg.sim.use_newton_actuators = False`.
        register: Whether to register all components; if not, `exploy.discover()` offers them one by one.

    Raises:
        InvalidEnvironmentError: If there are several robots, it is not on the CPU or not on Newton, a group does not
            exist, a delay is random, or motors are wanted and there are none that the file can compute.
        CaptureError: If the observation or action code cannot be captured; the message names the line.

    Example:
        >>> env = IsaacLabEnvironment(ManagerBasedRLEnv(cfg))
        >>> exploy.export(env, actor, "policy.onnx")
    """

    def __init__(
        self,
        env: Any,
        groups: Sequence[str] = ("policy",),
        clip_actions: float | None = None,
        *,
        motors: bool = False,
        register: bool = True,
    ):
        clip_actions = getattr(env, "clip_actions", None) if clip_actions is None else clip_actions
        env = env.unwrapped
        _require_cpu(env)
        _require_newton(env)
        super().__init__(env, groups, clip_actions, IsaacLabMotors(env) if motors else None, register)
        warn_of_random_events(env.event_manager, MOVED_CENTRES, CENTRES)
        if motors:
            warn_of_random_events(env.event_manager, RANDOM_GAINS, GAINS)

    @property
    def sim_dt(self) -> float:
        """The time in seconds after which actions are applied again.

        It is the time of a policy step where Newton's own actuators run all simulation steps at once.
        """
        return float(self.env.step_dt) / self.decimation

    @property
    def decimation(self) -> int:
        """How often actions are applied per policy step."""
        return 1 if self.env._physics_handles_decimation else int(self.env.cfg.decimation)

    def base_names(self) -> dict[str, str]:
        """The root body of each articulation."""
        return {name_part(name): root_body(asset) for name, asset in self.env.scene.articulations.items()}

    def robot_ports(self) -> Iterator[RobotPort]:
        """Joints, bodies, sensors and commands, and the targets of actuators."""
        scene = self.env.scene
        for name, robot in scene.articulations.items():
            yield from joint_ports(name, robot)
            yield from target_ports(name, robot)
        for name, asset in {**scene.articulations, **scene.rigid_objects}.items():
            yield from frame_ports(name, asset)
            yield from velocity_ports(name, asset)
        yield from sensor_ports(scene)
        yield from command_ports(self.env.command_manager)

    def delay_memories(self, group: str, term: str, buffer: Any) -> Iterator[RobotPort]:
        """The frames, and how many there were."""
        return delay_memories(group, term, buffer)

    def substitutes(self) -> list[Substitute]:
        """Those for what Warp computes, and for values that robots have in another form."""
        return [*isaaclab_substitutes(), height_scan_substitute(), pose_command_substitute()]


def _require_cpu(env: Any) -> None:
    if torch.device(env.device).type != "cpu":
        raise InvalidEnvironmentError(
            f'The environment is on {env.device}. Make it for the export with cfg.sim.device = "cpu" and '
            "cfg.sim.physics.use_cuda_graph = False; the weights of the policy do not change."
        )


def _require_newton(env: Any) -> None:
    others = {
        name: type(asset.data).__module__.partition(".")[0]
        for name, asset in env.scene.articulations.items()
        if not type(asset.data).__module__.startswith("isaaclab_newton.")
    }
    if others:
        listed = ", ".join(f"{name} on {package}" for name, package in others.items())
        raise InvalidEnvironmentError(
            f"Articulations must run on Newton, got {listed}. Make the environment with the physics preset "
            "newton_mjwarp (cfg.sim.physics); the weights of the policy do not change."
        )
