"""Isaac Lab 3's task AnymalD flat on Newton and the CPU, with a robot of boxes in place of the one on a server."""

from functools import partial
from typing import Any

import torch
from isaaclab_tasks.core.velocity.config.anymal_d.flat_env_cfg import AnymalDFlatEnvCfg

from exploy import ExportableEnvironment, Input, Memory, Output
from tests.support.isaaclab_tasks import make_anymal


def make_flat_anymal(*, history: int = 3, episode_s: float = 0.6) -> Any:
    """The environment of the task, with DC motors, one robot, and a history of joint positions."""
    config: Any = AnymalDFlatEnvCfg()
    config.observations.policy.enable_corruption = False
    config.observations.policy.joint_pos.history_length = history
    config.episode_length_s = episode_s
    return make_anymal(config)


class Anymal(ExportableEnvironment):
    """An adapter of the task: observations, actions, and what the robot measures."""

    def __init__(self, env: Any):
        super().__init__()
        self.env = env
        self.robot = env.scene["robot"]
        self._hooks: tuple[Any, ...] = (_ignore, _ignore, _ignore)
        data, term = self.robot.data, env.command_manager.get_term("base_velocity")
        rings = env.observation_manager._group_obs_term_history_buffer["policy"]
        self.context_manager().add_components(
            [
                Input("pose", lambda: data.root_link_pose_w.torch),
                Input("velocity", lambda: data.root_com_vel_w.torch),
                Input("joint_pos", lambda: data.joint_pos.torch),
                Input("joint_vel", lambda: data.joint_vel.torch),
                Input("command", lambda: term.vel_command_b),
                Output("targets", lambda: data.joint_pos_target.torch),
                Memory("actions", lambda: env.action_manager._action),
                *(Memory(f"{name}_frames", partial(getattr, ring, "_buffer")) for name, ring in rings.items()),
                *(Memory(f"{name}_pushes", partial(getattr, ring, "_num_pushes")) for name, ring in rings.items()),
            ]
        )

    def compute_observations(self) -> torch.Tensor:
        observations: torch.Tensor = self.env.observation_manager.compute_group("policy", update_history=True)
        return observations

    def process_actions(self, actions: torch.Tensor) -> None:
        self.env.action_manager.process_action(actions)

    def apply_actions(self) -> None:
        self.env.action_manager.apply_action()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        env, (update, reset, evaluate_substep) = self.env, self._hooks
        apply, compute, reset_rows = env.action_manager.apply_action, env.observation_manager.compute, env._reset_idx
        sub_steps = iter(range(self.decimation))

        def applied() -> None:
            apply()
            evaluate_substep(next(sub_steps))

        def computed(*args: Any, **options: Any) -> Any:
            update()
            return compute(*args, **options)

        def was_reset(rows: Any) -> None:
            reset_rows(rows)
            reset()

        env.action_manager.apply_action, env.observation_manager.compute, env._reset_idx = applied, computed, was_reset
        try:
            observations, _, terminated, truncated, _ = env.step(actions)
        finally:
            for owner, name in (
                (env.action_manager, "apply_action"),
                (env.observation_manager, "compute"),
                (env, "_reset_idx"),
            ):
                vars(owner).pop(name)
        return observations["policy"], bool((terminated | truncated).any())

    def observations_reset(self) -> torch.Tensor:
        self._hooks[0]()
        return self.compute_observations()

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, *self.env.observation_manager.group_obs_dim["policy"])

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, self.env.action_manager.total_action_dim)

    def metadata(self) -> dict[str, Any]:
        return {"sim_dt": self.env.physics_dt}

    @property
    def decimation(self) -> int:
        return int(self.env.cfg.decimation)

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        self._hooks = (update, reset, evaluate_substep)

    def get_observation_names(self) -> list[str]:
        return [f"obs_{index}" for index in range(self.empty_actor_observations().shape[1])]


def _ignore(*_: object) -> None:
    pass
