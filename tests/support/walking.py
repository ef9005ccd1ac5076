"""Environments whose memories have start values: an action, a filter, and a history of three observations."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from tests.support.environments import TestEnvironment

NUM_OBSERVATIONS = 12


class Walking(TestEnvironment):
    """Calls its hooks. Asked for observations after a reset, it computes them again, as many adapters do."""

    num_observations = NUM_OBSERVATIONS
    start_pose = 0.25

    def __init__(self, reset_every: int = 17, decimation: int = 2):
        super().__init__(decimation, reset_every)
        self.position = torch.tensor([[0.1, 0.2]])
        self.last_action = torch.zeros(1, 2)
        self.filtered = torch.full((1, 2), self.start_pose)
        self.history = torch.zeros(1, 3, 2)
        self.torque = torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("position", lambda: self.position),
                Memory("last_action", lambda: self.last_action),
                Memory("filtered", lambda: self.filtered),
                Memory("history", lambda: self.history),
                Output("torque", lambda: self.torque),
            ]
        )

    def observe(self) -> torch.Tensor:
        self.history = torch.cat([self.history[:, 1:], self.position[:, None]], 1)
        return torch.cat([self.position, self.last_action, self.filtered, self.history.flatten(1)], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last_action[:] = actions
        self.filtered.lerp_(actions, 0.3)

    def apply_actions(self) -> None:
        self.torque[:] = 4.0 * (self.filtered - self.position)

    def move(self) -> None:
        self.position += 0.05 * self.torque + 0.1 * self.noise(self.position)

    def prepare_export(self) -> None:
        pass

    def restart(self) -> None:
        self.position[:] = 0.3
        self.last_action.zero_()
        self.filtered.fill_(self.start_pose)
        self.history.zero_()


class Cached(Walking):
    """Asked for observations after a reset, it returns those that step() has computed."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._observations: torch.Tensor | None = None

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self._observations = None
        return super().step(actions)

    def observations_reset(self) -> torch.Tensor:
        if self._observations is None:
            self._observations = super().observations_reset()
        return self._observations


class ResetsWhenAsked(Walking):
    """Asked for observations after a reset, it resets once more, as two public adapters do."""

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self._in_step = True
        try:
            return super().step(actions)
        finally:
            self._in_step = False

    _in_step = False

    def observations_reset(self) -> torch.Tensor:
        if not self._in_step:
            self.restart()
            self._hooks[1]()
        return super().observations_reset()


class Resettable(Walking):
    """Implements the optional reset(); it is never reset by itself."""

    def __init__(self, reset_every: int = 10**9, decimation: int = 2):
        super().__init__(reset_every, decimation)

    def reset(self) -> None:
        self.restart()
        self._hooks[1]()


class ResettableAndObserving(Resettable):
    """Its reset() computes observations, as that of a gymnasium environment does."""

    def reset(self) -> None:
        super().reset()
        self.observations_reset()


def without_hooks(kind: type[Walking]) -> type[Walking]:
    """The same environment, without hooks."""

    class WithoutHooks(kind):  # type: ignore[misc, valid-type]
        def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
            pass

    WithoutHooks.__name__ = f"{kind.__name__}WithoutHooks"
    return WithoutHooks


class Reacher(gym.Env[np.ndarray, np.ndarray]):
    """An environment of gymnasium that keeps its last action."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self) -> None:
        self.position = torch.tensor([[0.1, 0.2]])
        self.last_action = torch.zeros(1, 2)
        self.torque = torch.zeros(1, 2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.position[:] = 0.3
        self.last_action[:] = 0.5
        return self.observe()[0].numpy(), {}

    def observe(self) -> torch.Tensor:
        return torch.cat([self.position, self.last_action], -1)

    def apply(self, actions: torch.Tensor) -> None:
        self.torque = 2.0 * actions - 0.5 * self.last_action
        self.last_action = actions.clone()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.apply(torch.from_numpy(action)[None])
        self.position = self.position + 0.05 * self.torque
        return self.observe()[0].numpy(), 0.0, False, False, {}


class GymReacher(ExportableEnvironment):
    """An adapter around an environment of gymnasium inside of its wrapper; no hooks."""

    num_observations = 4

    def __init__(self) -> None:
        super().__init__()
        self.inner = Reacher()
        self.env = gym.wrappers.TimeLimit(self.inner, max_episode_steps=17)
        self.env.reset(seed=0)
        self.context_manager().add_components(
            [
                Input("position", lambda: self.inner.position),
                Memory("last_action", lambda: self.inner.last_action),
                Output("torque", lambda: self.inner.torque),
            ]
        )

    def compute_observations(self) -> torch.Tensor:
        return self.inner.observe()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.inner.apply(actions)

    def apply_actions(self) -> None:
        pass

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, 4)

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def metadata(self) -> dict[str, Any]:
        return {}

    @property
    def decimation(self) -> int:
        return 1

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        pass

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        observation, _, terminated, truncated, _ = self.env.step(actions[0].numpy())
        if terminated or truncated:
            observation, _ = self.env.reset()
        return torch.from_numpy(observation)[None], terminated or truncated

    def get_observation_names(self) -> list[str]:
        return ["x", "y", "last_x", "last_y"]

    def observations_reset(self) -> torch.Tensor:
        return self.compute_observations()
