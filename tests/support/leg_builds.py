"""Adapters for legs, each of a different build: what step() and apply_actions() share is another thing in each."""

import functools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from tests.support.legs import SOFTENING, STIFFNESS, Legs, Unhooked


class Inner:
    """An environment of its own, which knows nothing of exploy."""

    def __init__(self, legs: Legs):
        self.legs = legs

    def apply_torque(self) -> None:
        legs = self.legs
        legs.share += legs.growth
        goal = legs.previous + legs.share * (legs.current - legs.previous)
        legs.torque[:] = STIFFNESS * (goal - legs.position) - SOFTENING * legs.contact

    def observe(self) -> torch.Tensor:
        return torch.cat([self.legs.position, self.legs.current, self.legs.contact], -1)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.legs.accept(actions)
        for number in range(self.legs.decimation):
            self.legs.begin_sub_step(number)
            self.apply_torque()
            self.legs.move()
        done = self.legs.end_step()
        self.legs.clear_before_observations()
        observations = self.observe()
        self.legs.clear_after_observations()
        return observations, done


class Delegating(Unhooked):
    """An adapter around an environment whose step() calls the method that apply_actions() calls."""

    def __init__(self, legs: Legs):
        super().__init__(legs)
        self.inner = Inner(legs)

    def compute_observations(self) -> torch.Tensor:
        return self.inner.observe()

    def apply_actions(self) -> None:
        self.inner.apply_torque()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return self.inner.step(actions)


class LeggedGym(Unhooked):
    """The build of legged_gym: the torque is assigned after the shared function has returned."""

    def _compute_torques(self, goal: torch.Tensor) -> torch.Tensor:
        return STIFFNESS * (goal - self.legs.position) - SOFTENING * self.legs.contact

    def _goal(self) -> torch.Tensor:
        self.legs.share += self.legs.growth
        return self.legs.previous + self.legs.share * (self.legs.current - self.legs.previous)

    def apply_actions(self) -> None:
        self.legs.torque = self._compute_torques(self._goal()).view(self.legs.torque.shape)

    def compute_observations(self) -> torch.Tensor:
        self.obs_buf = torch.cat([self.legs.position, self.legs.current, self.legs.contact], -1)
        return self.obs_buf

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.legs.accept(actions)
        for number in range(self.decimation):
            self.legs.begin_sub_step(number)
            self.legs.torque = self._compute_torques(self._goal()).view(self.legs.torque.shape)
            self.legs.move()
        done = self.legs.end_step()
        self.legs.clear_before_observations()
        self.compute_observations()
        self.legs.clear_after_observations()
        return self.obs_buf, done


class Managed(Unhooked):
    """A base with the loop, which calls what subclasses have stored: bound methods, partials, closures."""

    _apply: Callable[[], None]
    _observe: Callable[[], torch.Tensor]

    def apply_actions(self) -> None:
        self._apply()

    def compute_observations(self) -> torch.Tensor:
        return self._observe()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.legs.accept(actions)
        for number in range(self.decimation):
            self.legs.begin_sub_step(number)
            self._apply()
            self.legs.move()
        done = self.legs.end_step()
        self.legs.clear_before_observations()
        observations = self._observe()
        self.legs.clear_after_observations()
        return observations, done


class BoundMethods(Managed):
    """Keeps bound methods of another object."""

    def __init__(self, legs: Legs):
        super().__init__(legs)
        inner = Inner(legs)
        self._apply, self._observe = inner.apply_torque, inner.observe


def apply_torque(legs: Legs, stiffness: float) -> None:
    """A function of a module, not of a class."""
    legs.share += legs.growth
    goal = legs.previous + legs.share * (legs.current - legs.previous)
    torch.sub(stiffness * (goal - legs.position), SOFTENING * legs.contact, out=legs.torque)


def observe(legs: Legs) -> torch.Tensor:
    """A function of a module, not of a class."""
    return torch.cat([legs.position, legs.current, legs.contact], -1)


class Partials(Managed):
    """Keeps partials of functions of a module."""

    def __init__(self, legs: Legs):
        super().__init__(legs)
        self._apply = functools.partial(apply_torque, legs, stiffness=STIFFNESS)
        self._observe = functools.partial(observe, legs)


class Closures(Managed):
    """Keeps functions that hold the legs in a closure."""

    def __init__(self, legs: Legs):
        super().__init__(legs)

        def apply() -> None:
            legs.share += legs.growth
            goal = legs.previous + legs.share * (legs.current - legs.previous)
            legs.torque = STIFFNESS * (goal - legs.position) - SOFTENING * legs.contact

        self._apply = apply
        self._observe = lambda: torch.cat([legs.position, legs.current, legs.contact], -1)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as people write it."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Decorated(Unhooked):
    """Its methods are decorated, and step() calls them by super() of a subclass."""

    @logged
    def apply_actions(self) -> None:
        legs = self.legs
        legs.share += legs.growth
        goal = legs.previous + legs.share * (legs.current - legs.previous)
        legs.torque[:] = STIFFNESS * (goal - legs.position) - SOFTENING * legs.contact

    @logged
    def compute_observations(self) -> torch.Tensor:
        return torch.cat([self.legs.position, self.legs.current, self.legs.contact], -1)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        raise NotImplementedError


class BySuper(Decorated):
    """Extends apply_actions() and compute_observations() by super(), as terms of a manager do."""

    def apply_actions(self) -> None:
        super().apply_actions()
        self.legs.torque.clamp_(-200.0, 200.0)

    def compute_observations(self) -> torch.Tensor:
        return super().compute_observations().clip(-100.0, 100.0)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.process_actions(actions)
        for number in range(self.decimation):
            self.legs.begin_sub_step(number)
            self.apply_actions()
            self.legs.move()
        done = self.legs.end_step()
        self.legs.clear_before_observations()
        observations = self.compute_observations()
        self.legs.clear_after_observations()
        return observations, done


class GymLegs(gym.Env[np.ndarray, np.ndarray]):
    """An environment of gymnasium."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, legs: Legs):
        self.legs = legs

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.legs.restart()
        return self._observe().numpy()[0], {}

    def apply_torque(self) -> None:
        legs = self.legs
        legs.share += legs.growth
        goal = legs.previous + legs.share * (legs.current - legs.previous)
        legs.torque[:] = STIFFNESS * (goal - legs.position) - SOFTENING * legs.contact

    def _observe(self) -> torch.Tensor:
        return torch.cat([self.legs.position, self.legs.current, self.legs.contact], -1)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.legs.accept(torch.from_numpy(action)[None])
        for number in range(self.legs.decimation):
            self.legs.begin_sub_step(number)
            self.apply_torque()
            self.legs.move()
        self.legs.clear_before_observations()
        observation = self._observe().numpy()[0]
        self.legs.clear_after_observations()
        return observation, 0.0, False, False, {}


class Gymnasium(Unhooked):
    """An adapter around an environment of gymnasium, inside of two wrappers of gymnasium."""

    def __init__(self, legs: Legs):
        super().__init__(legs)
        self.inner = GymLegs(legs)
        self.env = gym.wrappers.TimeLimit(gym.wrappers.ClipAction(self.inner), max_episode_steps=23)
        self.env.reset(seed=0)

    def compute_observations(self) -> torch.Tensor:
        return self.inner._observe()

    def apply_actions(self) -> None:
        self.inner.apply_torque()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        observation, _, terminated, truncated, _ = self.env.step(actions[0].numpy())
        if terminated or truncated:
            observation, _ = self.env.reset()
        return torch.from_numpy(observation)[None], terminated or truncated


BUILDS = (Delegating, LeggedGym, BoundMethods, Partials, Closures, BySuper, Gymnasium)
