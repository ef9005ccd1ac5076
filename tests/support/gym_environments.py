"""Small gymnasium environments with the spaces that the classic ones do not have."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

IMAGE = spaces.Box(0, 255, (36, 40, 3), np.uint8)


class RandomWalk(gym.Env[Any, Any]):
    """Observations from any space, drawn anew at each step; the reward is for actions that follow them."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], steps: int = 20):
        self.observation_space, self.action_space = observation_space, action_space
        self._steps, self._step = steps, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._step = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        return self.observation_space.sample(), float(np.sum(action)), self._step >= self._steps, False, {}

    def action_masks(self) -> np.ndarray:
        """Every second action of those that there are, the last always."""
        space = self.action_space
        sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n]  # type: ignore[attr-defined]
        masks = [(np.arange(size) + self._step) % 2 == 0 for size in sizes]
        for mask in masks:
            mask[-1] = True
        return np.concatenate(masks)
