"""Targets that a step sets once, and memories that it writes later than process_actions() does, in Genesis' manner.

Nothing that step() calls is called by apply_actions(), and no hook is.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from exploy.exporter.core.components import Input, Memory, Output
from tests.support.legs import Kind, Legs, Unhooked
from tests.support.verdicts import cases, errors, verdict


class NumpySimulator:
    """Moves in numpy, in memory that it shares with torch, as a simulator in C does."""

    def __init__(self) -> None:
        self._noise = np.random.default_rng(0)
        self.position = np.full((1, 2), 0.1, np.float32)

    def move(self, target: np.ndarray) -> None:
        noise = self._noise.normal(size=(1, 2)).astype(np.float32)
        self.position += 0.1 * (target - self.position) + 0.02 * noise


class NoLegs(Legs):
    """Registers nothing."""

    def components(self) -> list[Any]:
        return []


class Targets(Unhooked):
    """Position targets by process_actions() alone, one step late; apply_actions() is empty and never called."""

    decimation = 4
    every = 7

    def __init__(self) -> None:
        self.simulator = NumpySimulator()
        self.position = torch.from_numpy(self.simulator.position)
        self.action = torch.zeros(1, 2)
        self.last_action = torch.zeros(1, 2)
        self.target = torch.zeros(1, 2)
        self.command = torch.zeros(1, 2)
        self.time = torch.zeros(())
        self._steps = 0
        super().__init__(NoLegs(Kind.PLAIN))
        self.context_manager().add_components(
            [
                Input("joints", lambda: self.position),
                Input("command", lambda: self.command),
                Memory("action", lambda: self.action),
                Memory("last_action", lambda: self.last_action),
                Output("target", lambda: self.target),
            ]
        )

    def process_actions(self, actions: torch.Tensor) -> None:
        self.action = actions.clip(-1, 1)
        self.target = 0.5 * self.last_action + 0.1
        self.last_action = self.action.clone()

    def apply_actions(self) -> None: ...

    def compute_observations(self) -> torch.Tensor:
        return torch.cat([self.position, self.action, self.command], -1)

    def move(self, number: int) -> None:
        self.simulator.move(self.target.numpy())
        self.time += 0.005

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """As Genesis' examples do: the last action is kept after observations were computed."""
        self.action = actions.clip(-1, 1)
        self.target = 0.5 * self.last_action + 0.1
        for number in range(self.decimation):
            self.move(number)
        self._steps += 1
        done = self._steps % self.every == 0
        self.command = torch.full((1, 2), 0.1 * (self._steps % 5))
        if done:
            self.restart()
        observations = self.compute_observations()
        self.last_action = torch.zeros(1, 2) if done else self.action.clone()
        return observations, done

    def restart(self) -> None:
        self.position.fill_(0.3)
        self.action = torch.zeros(1, 2)


class ManyTargets(Targets):
    decimation = 40


class ResetsWhenAsked(Targets):
    """step() only says that the episode is over; observations_reset() resets."""

    is_over = False

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        every, self.every = self.every, 10**9
        observations, _ = super().step(actions)
        self.every = every
        self.is_over = self._steps % every == 0
        return observations, self.is_over

    def observations_reset(self) -> torch.Tensor:
        if self.is_over:
            self.restart()
            self.last_action = torch.zeros(1, 2)
            self.is_over = False
        return self.compute_observations()


class AppliesOnce(Targets):
    """Calls apply_actions() once a step; the simulator keeps the target."""

    def process_actions(self, actions: torch.Tensor) -> None:
        self.action = actions.clip(-1, 1)

    def apply_actions(self) -> None:
        self.target = 0.5 * self.action

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.process_actions(actions)
        self.apply_actions()
        for number in range(self.decimation):
            self.move(number)
        self._steps += 1
        done = self._steps % self.every == 0
        if done:
            self.restart()
        return self.compute_observations(), done


class Interpolates(Targets):
    """step() leads the target from the one before to the new one by itself."""

    def move(self, number: int) -> None:
        goal = self.target
        self.target = (number + 1) / self.decimation * goal
        super().move(number)
        self.target = goal


class HalvesInBetween(Targets):
    def move(self, number: int) -> None:
        if number in (1, 2):
            self.target = self.target * (0.5 if number == 1 else 2.0)
        super().move(number)


class ForgetsLastAction(Targets):
    """step() does not keep the last action; process_actions() does."""

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        result = super().step(actions)
        self.last_action = torch.zeros(1, 2)
        return result


@cases(1, Targets, ResetsWhenAsked, AppliesOnce, ManyTargets)
def test_targets_may_be_set_once_a_step(kind, tmp_path: Path, capsys):
    assert verdict(kind(), tmp_path, capsys) == "agrees"
    assert errors(kind()) == []


@cases(2, Interpolates, ForgetsLastAction, HalvesInBetween)
def test_targets_that_step_sets_otherwise_are_not_green(kind, tmp_path: Path, capsys):
    assert verdict(kind(), tmp_path, capsys) in ("differs", "incomplete")


class MovesOnce(Targets):
    """The simulator moves once a step, not four times."""

    def move(self, number: int) -> None:
        if number == 0:
            super().move(number)


class MovesTwiceAsOften(Targets):
    def move(self, number: int) -> None:
        super().move(number)
        super().move(number)


class MovesUnseen(Targets):
    """Four moves without a torch operator in between look like one."""

    def move(self, number: int) -> None:
        if number == 0:
            target = self.target.numpy()
            for _ in range(self.decimation):
                self.simulator.move(target)


@cases(1, MovesOnce, MovesTwiceAsOften, MovesUnseen)
def test_the_simulator_must_be_seen_to_move_as_often_as_decimation_says(kind, tmp_path: Path, capsys):
    assert verdict(kind(), tmp_path, capsys) == "incomplete"
