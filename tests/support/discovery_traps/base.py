"""The robot that the traps are made of, and its actor."""

from collections.abc import Callable
from typing import Any

import torch

from exploy.environment.exportable_environment import ExportableEnvironment, Observations


class TrapEnvironment(ExportableEnvironment):
    """An environment with two motors, without reset(): `step()` resets it at the end of an episode.

    A step is `process_actions()`, then `ticks` times `apply_actions()` and `simulate()`, then `end_step()`. Subclasses
    make their state in `setup()` and put it to start values in `restart()`.
    """

    width = 4
    ticks = 2
    episode = 37
    starts_reset = True

    def __init__(self) -> None:
        super().__init__()
        self.random = torch.Generator().manual_seed(11)
        self.step_number = 0
        self.hooks: tuple[Callable[..., None], ...] = (_ignore, _ignore, _ignore)
        self.torque = torch.zeros(1, 2)
        self.setup()
        if self.starts_reset:
            self.restart()

    def setup(self) -> None:
        """Make the state."""

    def simulate(self) -> None:
        """Move the robot by one tick of the simulator."""

    def end_step(self) -> None:
        """Do what step() does after the last tick, such as resampling commands."""

    def restart(self) -> None:
        """Put the state to the start of an episode."""
        self.torque.zero_()

    def noise(self, *shape: int) -> torch.Tensor:
        return 0.1 * torch.randn(shape, generator=self.random)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = 0.5 * actions

    def apply_actions(self) -> None:
        pass

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> Observations:
        return torch.zeros(1, self.width)

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def metadata(self) -> dict[str, Any]:
        return {"env_name": type(self).__name__}

    @property
    def decimation(self) -> int:
        return self.ticks

    def register_evaluation_hooks(
        self,
        update: Callable[[], None],
        reset: Callable[[], None],
        evaluate_substep: Callable[[int], None],
    ) -> None:
        self.hooks = (update, reset, evaluate_substep)

    def step(self, actions: torch.Tensor) -> tuple[Observations, bool]:
        self.process_actions(actions)
        for tick in range(self.ticks):
            if tick:
                self.context_manager().write_connections()
            self.apply_actions()
            self.hooks[2](tick)
            self.simulate()
        self.end_step()
        self.step_number += 1
        done = self.step_number % self.episode == 0
        if done:
            self.restart()
            self.hooks[1]()
        return self.observations_reset(), done

    def get_observation_names(self) -> Any:
        return [f"element_{index}" for index in range(self.width)]

    def observations_reset(self) -> Observations:
        self.hooks[0]()
        self.context_manager().write_connections()
        for command_update in self.command_updates:
            command_update()
        return self.compute_observations()


class TrapRobot(TrapEnvironment):
    """Measures its position, which the simulator writes in place; subclasses observe more."""

    def __init__(self) -> None:
        self.pos = torch.zeros(1, 2)
        super().__init__()

    def more(self) -> torch.Tensor:
        """What is observed besides the position."""
        raise NotImplementedError

    def compute_observations(self) -> Observations:
        return torch.cat([self.pos, self.more()], -1)

    def simulate(self) -> None:
        self.pos.mul_(0.95).add_(0.1 * self.torque + self.noise(1, 2))

    def restart(self) -> None:
        super().restart()
        self.pos.copy_(self.noise(1, 2))


class ResettableRobot(TrapRobot):
    """The same, with reset()."""

    def reset(self) -> None:
        self.restart()


def small_actor(width: int, seed: int = 5) -> torch.nn.Module:
    """A small network that every observation matters to, in training mode as torch makes it."""
    net = torch.nn.Sequential(torch.nn.Linear(width, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    fill(net, seed)
    return net


def fill(module: torch.nn.Module, seed: int = 5) -> None:
    """Give a module random weights that do not depend on the state of torch."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=random))


def robot(kind: Callable[[], TrapEnvironment]) -> Callable[[], tuple[ExportableEnvironment, torch.nn.Module]]:
    """A function that makes an environment and a small actor for it."""

    def make() -> tuple[ExportableEnvironment, torch.nn.Module]:
        env = kind()
        return env, small_actor(env.width)

    return make


def draw(random: torch.Generator, *shape: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
    """Uniform random numbers."""
    return low + (high - low) * torch.rand(shape, generator=random)


def draw_index(random: torch.Generator, stop: int, *shape: int) -> torch.Tensor:
    """Random integers below `stop`."""
    return torch.randint(stop, shape, generator=random)


def draw_flag(random: torch.Generator, *shape: int) -> torch.Tensor:
    """Random flags."""
    return torch.rand(shape, generator=random) < 0.5


def _ignore(*_: object) -> None:
    pass
