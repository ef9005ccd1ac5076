"""Observations and parts of them that step() has computed before, so that the pipeline only reads the results."""

from typing import Any

import torch

from exploy.environment.exportable_environment import Observations
from tests.support.discovery_traps.base import TrapEnvironment, TrapRobot, draw, robot
from tests.support.discovery_traps.trap import Trap


class ObservationBuffer(TrapRobot):
    """Its step() computes the observations; compute_observations() returns what is there."""

    def setup(self) -> None:
        self.vel = torch.zeros(1, 2)
        self.obs_buf = torch.zeros(1, 4)

    def compute_observations(self) -> Observations:
        return self.obs_buf

    def simulate(self) -> None:
        super().simulate()
        self.vel = 0.8 * self.vel + 0.1 * self.torque + self.noise(1, 2)

    def end_step(self) -> None:
        self.obs_buf = torch.cat([self.pos, self.vel], -1)

    def restart(self) -> None:
        super().restart()
        self.end_step()


def scatter_buffer(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.vel = draw(random, 1, 2)
    env.end_step()


class InnerEnvironment:
    """A training environment of another library, with its own step()."""

    def __init__(self, random: torch.Generator):
        self.random = random
        self.state = torch.zeros(1, 4)
        self.obs_buf = torch.zeros(1, 4)

    def drive(self, torque: torch.Tensor) -> None:
        self.state.mul_(0.9).add_(0.1 * torch.cat([torque, -torque], -1))
        self.state.add_(0.1 * torch.randn(1, 4, generator=self.random))

    def observe(self) -> None:
        self.obs_buf[:] = torch.tanh(self.state)


class AdapterWithClipping(TrapEnvironment):
    """An adapter: clips the observations that the environment within has computed in its step."""

    def setup(self) -> None:
        self.inner = InnerEnvironment(self.random)

    def compute_observations(self) -> Observations:
        return self.inner.obs_buf.clamp(-5.0, 5.0)

    def simulate(self) -> None:
        self.inner.drive(self.torque)

    def end_step(self) -> None:
        self.inner.observe()

    def restart(self) -> None:
        super().restart()
        self.inner.state.zero_()
        self.inner.observe()


def scatter_inner(env: Any, random: torch.Generator) -> None:
    env.inner.state.copy_(draw(random, 1, 4))
    env.inner.observe()


class HistoryFromStep(TrapRobot):
    """Its step() stacks the last three positions; compute_observations() returns a copy of the stack."""

    width = 6

    def setup(self) -> None:
        self.obs_history = torch.zeros(1, 6)

    def compute_observations(self) -> Observations:
        return self.obs_history.clone()

    def end_step(self) -> None:
        self.obs_history = torch.cat([self.obs_history[:, 2:], self.pos], -1)

    def restart(self) -> None:
        super().restart()
        self.obs_history = self.pos.repeat(1, 3)


def scatter_history(env: Any, random: torch.Generator) -> None:
    for _ in range(3):
        env.pos.copy_(draw(random, 1, 2))
        env.end_step()


class VelocityOfTheBase(TrapRobot):
    """Its step() turns the velocity of the root into the frame of the base, in place, as a gyroscope measures it."""

    def setup(self) -> None:
        self.root_state = torch.zeros(1, 3)  # yaw, velocity in the world
        self.base_vel = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return self.base_vel

    def simulate(self) -> None:
        super().simulate()
        self.root_state.mul_(0.9).add_(self.noise(1, 3))
        self.root_state[:, 1:] += 0.1 * self.torque

    def end_step(self) -> None:
        self.base_vel[:] = turned(self.root_state)

    def restart(self) -> None:
        super().restart()
        self.root_state.zero_()
        self.end_step()


def turned(root_state: torch.Tensor) -> torch.Tensor:
    sin, cos = root_state[:, 0].sin(), root_state[:, 0].cos()
    x, y = root_state[:, 1], root_state[:, 2]
    return torch.stack([cos * x + sin * y, cos * y - sin * x], -1)


def scatter_base(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.root_state.copy_(draw(random, 1, 3))
    env.end_step()


TRAPS = (
    Trap(
        name="observation buffer filled by step()",
        why="The buffer changes at each step and is read, so it looks like a sensor. The robot has no observations.",
        make=robot(ObservationBuffer),
        scatter=scatter_buffer,
        to_be_said=frozenset({"env.obs_buf"}),
        never_inputs=frozenset({"env.obs_buf"}),
        naive={"env.obs_buf": "input"},
    ),
    Trap(
        name="observation buffer of a wrapped environment, clipped",
        why="The adapter computes something, but from observations that the environment within has computed before.",
        make=robot(AdapterWithClipping),
        scatter=scatter_inner,
        to_be_said=frozenset({"env.inner.obs_buf"}),
        never_inputs=frozenset({"env.inner.obs_buf"}),
        naive={"env.inner.obs_buf": "input"},
    ),
    Trap(
        name="observation history stacked by step()",
        why="The history looks like one wide sensor. The robot would have to stack the positions itself.",
        make=robot(HistoryFromStep),
        scatter=scatter_history,
        to_be_said=frozenset({"env.obs_history"}),
        never_inputs=frozenset({"env.obs_history"}),
        naive={"env.obs_history": "input"},
    ),
    Trap(
        name="velocity in the frame of the base, refreshed by step()",
        why="The root has the true state, but only the refreshed tensor is read. The root alone does nothing.",
        make=robot(VelocityOfTheBase),
        scatter=scatter_base,
        inputs=frozenset({"env.pos", "env.base_vel"}),
        naive={"env.base_vel": "left out", "env.root_state": "input"},
    ),
)
