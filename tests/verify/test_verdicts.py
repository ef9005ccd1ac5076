"""The three verdicts: agrees, differs, incomplete. Only the first is True."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.session_wrapper import SessionWrapper
from exploy.verify.tally import Tally
from exploy.verify.verdict import Verdict
from tests.support.checking import check
from tests.support.environments import TestEnvironment, export, make_actor
from tests.support.leg_builds import Delegating
from tests.support.legs import NUM_OBSERVATIONS, Kind, Legs


class Damped(TestEnvironment):
    """Observes the last joint velocity, which is a Memory; observation code keeps it."""

    num_observations = 6

    def __init__(self, reset_every: int = 37):
        super().__init__(decimation=2, reset_every=reset_every)
        self.velocity = torch.tensor([[0.1, 0.2]])
        self.last_velocity = torch.zeros(1, 2)
        self.last_action = torch.zeros(1, 2)
        self.torque = torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("velocity", lambda: self.velocity),
                Memory("last_velocity", lambda: self.last_velocity),
                Memory("last_action", lambda: self.last_action),
                Output("torque", lambda: self.torque),
            ]
        )

    def observe(self) -> torch.Tensor:
        observations = torch.cat([self.velocity, self.velocity - self.last_velocity, self.last_action], -1)
        self.last_velocity[:] = self.velocity
        return observations

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last_action[:] = actions

    def apply_actions(self) -> None:
        self.torque[:] = 3.0 * self.last_action - self.velocity

    def move(self) -> None:
        self.velocity += 0.02 * self.torque + 0.1 * self.noise(self.velocity)


class WrittenByStep(Damped):
    """As in legged_gym: step() itself keeps the last velocity, after observations were computed."""

    def observe(self) -> torch.Tensor:
        return torch.cat([self.velocity, self.velocity - self.last_velocity, self.last_action], -1)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        result = super().step(actions)
        self.last_velocity[:] = self.velocity
        return result


def without_hooks(kind: type[Damped]) -> type[Damped]:
    class WithoutHooks(kind):  # type: ignore[misc, valid-type]
        def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
            pass

    return WithoutHooks


def run(env: Any, session: SessionWrapper, steps: int = 30, **options: Any) -> bool:
    options = {"verbose": False, "pause_on_failure": False, **options}
    ok, _ = evaluate(env, env.context_manager(), session, steps, **options)
    return ok


# -- agrees ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Damped, without_hooks(Damped)])
def test_agrees_is_said_with_the_count(kind, tmp_path: Path, capsys):
    env = kind(reset_every=1000)
    assert run(env, export(env, make_actor(6), tmp_path), 30, verbose=True)
    # obs and actions at 30 steps; the torque and two memories at 60 sub-steps
    assert "agrees: the file behaves like the environment (240 comparisons over 30 policy steps)" in output(capsys)


# -- differs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 50])
@pytest.mark.parametrize("kind", [WrittenByStep, without_hooks(WrittenByStep)])
def test_a_memory_that_step_writes_is_named(kind, every, tmp_path: Path, capsys):
    env = kind(reset_every=1000)
    session = export(env, make_actor(6), tmp_path)
    assert not run(env, session, reset_from_onnx_counter_steps=every)
    report = output(capsys)
    assert "differs: the file does NOT agree" in report
    assert "memory.last_velocity.out" in report


@pytest.mark.parametrize("kind", [WrittenByStep, without_hooks(WrittenByStep)])
def test_the_check_names_a_memory_that_step_writes(kind):
    diagnosis = check(kind(), make_actor(6))
    assert any("last_velocity" in finding.tensor for finding in diagnosis.errors)


class WrittenOnce(Damped):
    """The simulator writes a memory in one step only."""

    def move(self) -> None:
        super().move()
        if self._steps == 9:
            self.last_action += 0.01


@pytest.mark.matrix(3)
@pytest.mark.parametrize("every", [1, 3, 9, None])
@pytest.mark.parametrize("kind", [WrittenOnce, without_hooks(WrittenOnce)])
def test_memories_are_compared_before_they_are_taken_from_the_environment(kind, every, tmp_path: Path, capsys):
    env = kind(reset_every=1000)
    session = export(env, make_actor(6), tmp_path)
    assert not run(env, session, reset_from_onnx_counter_steps=every)
    report = output(capsys)
    assert "memory.last_action.out" in report and "step 9" in report


# -- incomplete -----------------------------------------------------------------------------------------------------


class Random(torch.nn.Module):
    """Draws random numbers for its actions."""

    def __init__(self) -> None:
        super().__init__()
        self.net = make_actor(6)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.net(observations) + 0.1 * torch.randn(1, 2)


RANDOM = ("actions", "torque", "memory.last_action.out", "obs")


def test_outputs_that_random_numbers_reach_are_incomplete_unless_they_are_named(tmp_path: Path, capsys):
    env = Damped(reset_every=1000)
    session = export(env, Random(), tmp_path, allow_random=True)
    assert not run(env, session)
    report = output(capsys)
    assert "incomplete: " in report and "depends on random numbers" in report
    assert all(name in report for name in RANDOM)
    assert run(env, session, allow_uncompared=RANDOM)
    assert not run(env, session, allow_uncompared=RANDOM[:3])
    assert "incomplete: obs could not be compared" in output(capsys)


def test_a_name_that_need_not_be_compared_does_not_hide_that_it_differs(tmp_path: Path):
    class Worn(Damped):
        strength = torch.ones(1)

        def apply_actions(self) -> None:
            self.torque[:] = self.strength * self.last_action - self.velocity

    env = Worn(reset_every=1000)
    session = export(env, make_actor(6), tmp_path)
    env.strength *= 0.9
    assert not run(env, session, allow_uncompared=["torque"])


def test_a_run_that_is_too_short_for_a_sub_step_is_incomplete(tmp_path: Path, capsys):
    class EndsEarly(Delegating):
        """Every step ends in a reset after its first sub-step."""

        def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
            self.legs.accept(actions)
            self.inner.apply_torque()
            self.legs.restart()
            return self.inner.observe(), True

    env = EndsEarly(Legs(Kind.PLAIN))
    session = export(env, make_actor(NUM_OBSERVATIONS), tmp_path, initial_memory="reset")
    assert not run(env, session, 5)
    assert "incomplete: " in output(capsys)


def test_a_file_that_differs_and_was_not_all_compared_differs():
    tally = Tally(1e-5, 1e-5, expected={"torque": range(4), "obs": range(1)})
    assert tally.verdict is Verdict.INCOMPLETE
    tally.compare("obs", np.zeros(2), np.ones(2), 0, 0)
    assert tally.verdict is Verdict.DIFFERS and not tally.ok
    assert "1 of 1 comparisons over 1 policy steps failed" in tally.headline(1)


def test_nothing_compared_is_incomplete():
    assert Tally(1e-5, 1e-5).verdict is Verdict.INCOMPLETE


# -- which element is shown -----------------------------------------------------------------------------------------


def test_the_element_that_is_shown_is_the_one_that_violates_and_not_the_largest(capsys):
    """An error of 5e-3 is within the tolerance of 1000, and one of 1e-3 is not within that of 1."""
    tally = Tally(1e-5, 1e-5, element_names={"torque": ("hip", "knee")})
    tally.compare("torque", np.array([1000.0, 1.0]), np.array([1000.005, 1.001]), 0, 0)
    tally.print(Console(width=200), 1)
    report = output(capsys)
    assert "(knee)" in report and "element [1] is 1.001" in report and "hip" not in report
    assert tally.outputs["torque"].worst_error == pytest.approx(1e-3)


def test_of_an_environment_too(tmp_path: Path, capsys):
    class Strong(Damped):
        """Its first joint has large torques, off by less than the tolerance; its second one is off by more."""

        fault = torch.zeros(1, 2)

        def apply_actions(self) -> None:
            self.torque[:] = torch.tensor([[3000.0, 3.0]]) + self.last_action - 0.1 * self.velocity + self.fault

        def move(self) -> None:
            self.velocity += 0.1 * self.noise(self.velocity)

    env = Strong(reset_every=1000)
    session = export(env, make_actor(6), tmp_path)
    env.fault += torch.tensor([[2e-3, 1e-3]])
    assert not run(env, session, 3)
    row = next(line for line in output(capsys).split("│") if "differs, first" in line)
    assert "element [0, 1]" in row


def output(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, in one line."""
    return " ".join(capsys.readouterr().out.split())
