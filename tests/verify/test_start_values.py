"""A file starts as its environment does after a reset, and an evaluation, a check and a strict export say if not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind, Severity
from exploy.errors import ComponentError, NoResetSeenWarning, UnregisteredStateError
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper
from tests.support.checking import check
from tests.support.environments import export, make_actor
from tests.support.walking import (
    Cached,
    GymReacher,
    ResetsWhenAsked,
    Resettable,
    ResettableAndObserving,
    Walking,
    without_hooks,
)

Make = Callable[[], Any]

RESET_BY_THEMSELVES = [
    Walking,
    Cached,
    ResetsWhenAsked,
    without_hooks(Walking),
    without_hooks(Cached),
    without_hooks(ResetsWhenAsked),
    GymReacher,
]
RESETTABLE = [
    Resettable,
    ResettableAndObserving,
    without_hooks(Resettable),
    without_hooks(ResettableAndObserving),
]


def in_the_middle_of_an_episode(make: Make) -> tuple[Any, Any]:
    """An environment after some steps, and its actor."""
    env = make()
    actor = make_actor(env.num_observations)
    with torch.no_grad():
        observations = env.observations_reset()
        for _ in range(5):
            observations, _ = env.step(actor(observations))
    return env, actor


def run(env: Any, session: SessionWrapper, steps: int | None = 60, **options: Any) -> bool:
    options = {"verbose": False, "pause_on_failure": False, **options}
    ok, _ = evaluate(env, env.context_manager(), session, steps, **options)
    return ok


def output(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


# -- evaluation -----------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("make", RESET_BY_THEMSELVES)
def test_a_file_of_the_middle_of_an_episode_differs_after_the_first_reset(make: Make, tmp_path: Path, capsys):
    env, actor = in_the_middle_of_an_episode(make)
    session = export(env, actor, tmp_path)
    assert run(env, session, 10)
    assert not run(env, session)
    report = output(capsys)
    assert "memory.last_action.out" in report and "start value after the reset of the environment" in report


@pytest.mark.matrix(2)
@pytest.mark.parametrize("every", [None, pytest.param(1, marks=pytest.mark.expensive)])
@pytest.mark.parametrize("make", RESET_BY_THEMSELVES)
def test_a_file_with_the_values_of_a_reset_agrees(make: Make, every, tmp_path: Path):
    env, actor = in_the_middle_of_an_episode(make)
    session = export(env, actor, tmp_path, initial_memory="reset")
    assert run(env, session, reset_from_onnx_counter_steps=every)


@pytest.mark.matrix
@pytest.mark.parametrize("make", RESETTABLE)
def test_an_environment_that_can_be_reset_is_reset_at_the_end_of_an_episode(make: Make, tmp_path: Path, capsys):
    env, actor = in_the_middle_of_an_episode(make)
    wrong = export(env, actor, tmp_path / "found")
    right = export(env, actor, tmp_path / "reset", initial_memory="reset")
    assert run(env, right, None, num_episodes=3, max_episode_steps=8)
    assert not run(env, wrong, None, num_episodes=3, max_episode_steps=8)
    assert "start value after the reset of the environment" in output(capsys)


@pytest.mark.matrix(2)
@pytest.mark.parametrize("name", ["last_action", "filtered", "history"])
@pytest.mark.parametrize("make", [Walking, without_hooks(Walking), Cached, without_hooks(ResetsWhenAsked)])
def test_one_wrong_start_value_is_enough(make: Make, name, tmp_path: Path, capsys):
    env, actor = make(), make_actor(12)
    start = {"filtered": torch.full((1, 2), 0.25)}
    value = torch.zeros(1, 3, 2) if name == "history" else torch.zeros(1, 2)
    value = start.get(name, value) + 1e-3
    session = export(env, actor, tmp_path, initial_memory=start | {name: value})
    assert not run(env, session)
    assert f"memory.{name}.out" in output(capsys)


class OwnObservations(Walking):
    """step() has observation code of its own and calls no hooks, so that nobody sees when it writes the history."""

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        pass

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.process_actions(actions)
        for _ in range(self._decimation):
            self.apply_actions()
            self.move()
        self._steps += 1
        done = self._steps % self._reset_every == 0
        if done:
            self.restart()
        self.history = torch.cat([self.history[:, 1:], self.position[:, None]], 1)
        self.kept = torch.cat([self.position, self.last_action, self.filtered, self.history.flatten(1)], -1)
        return self.kept, done


class OwnObservationsKept(OwnObservations):
    """Asked for observations after a reset, it returns those of the step."""

    def observations_reset(self) -> torch.Tensor:
        return self.kept if hasattr(self, "kept") else super().observations_reset()


@pytest.mark.matrix
@pytest.mark.parametrize("every", [None, 1])
@pytest.mark.parametrize("make", [OwnObservations, OwnObservationsKept])
def test_a_start_that_nobody_can_see_is_incomplete_and_not_wrong(make: Make, every, tmp_path: Path, capsys):
    env, actor = in_the_middle_of_an_episode(make)
    session = export(env, actor, tmp_path, initial_memory="reset")
    assert not run(env, session, reset_from_onnx_counter_steps=every)
    report = output(capsys)
    assert "incomplete: memory.history.out could not be compared" in report
    assert "at the start after a reset: the computation of observations" in report and "differs" not in report
    assert check(make(), actor).errors == ()


class PairsOfPositionAndAction(Walking):
    """Its history has pairs, of which computing observations writes one half and processing actions the other."""

    def observe(self) -> torch.Tensor:
        self.history = self.history.roll(-1, 1)
        self.history[:, -1, :1] = self.position[:, :1]
        return torch.cat([self.position, self.last_action, self.filtered, self.history.flatten(1)], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.history[:, -1, 1:] = actions[:, :1]


@pytest.mark.parametrize("make", [PairsOfPositionAndAction, without_hooks(PairsOfPositionAndAction)])
def test_a_memory_that_both_observations_and_actions_write_agrees(make: Make, tmp_path: Path):
    env, actor = in_the_middle_of_an_episode(make)
    assert run(env, export(env, actor, tmp_path, initial_memory="reset"))


# -- values of a reset ----------------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize(
    "make",
    [
        Walking,
        without_hooks(Cached),
        ResetsWhenAsked,
        ResettableAndObserving,
        *(pytest.param(make, marks=pytest.mark.expensive) for make in [*RESET_BY_THEMSELVES[1:-1], *RESETTABLE]),
    ],
)
def test_values_are_those_before_the_first_observations(make: Make, tmp_path: Path):
    """The history is empty then: neither step() nor reset() nor prepare_export() has pushed anything."""
    env, actor = in_the_middle_of_an_episode(make)
    contract = exploy.export(env, actor, tmp_path / "policy.onnx").contract
    starts = {memory.name: memory.initial_value() for memory in contract.memories}
    assert not starts["last_action"].any() and not starts["history"].any()
    np.testing.assert_array_equal(starts["filtered"], np.full((1, 2), 0.25, np.float32))


@pytest.mark.matrix
@pytest.mark.parametrize("make", [Walking, without_hooks(Walking), Resettable, GymReacher])
def test_an_export_leaves_everything_as_it_was(make: Make, tmp_path: Path):
    env, actor = in_the_middle_of_an_episode(make)
    other, _ = in_the_middle_of_an_episode(make)
    torch.manual_seed(3)
    np.random.seed(3)
    exploy.export(env, actor, tmp_path / "policy.onnx")
    drawn = torch.rand(1), np.random.rand()
    torch.manual_seed(3)
    np.random.seed(3)
    assert drawn == (torch.rand(1), np.random.rand())
    with torch.no_grad():
        for _ in range(20):
            one, is_reset = env.step(torch.full((1, 2), 0.3))
            two, is_other_reset = other.step(torch.full((1, 2), 0.3))
            assert torch.equal(one, two) and is_reset == is_other_reset


def test_no_reset_in_time_is_said_and_the_current_values_are_stored(tmp_path: Path):
    env, actor = in_the_middle_of_an_episode(lambda: Walking(reset_every=100))
    with pytest.warns(NoResetSeenWarning, match="No reset was seen within 20 policy steps"):
        result = exploy.export(env, actor, tmp_path / "policy.onnx", reset_within=20)
    stored = {memory.name: memory.initial_value() for memory in result.contract.memories}
    np.testing.assert_array_equal(stored["last_action"], env.last_action.numpy())
    np.testing.assert_array_equal(stored["history"], env.history.numpy())


def test_a_longer_wait_sees_it(tmp_path: Path):
    env, actor = in_the_middle_of_an_episode(lambda: Walking(reset_every=100))
    contract = exploy.export(env, actor, tmp_path / "policy.onnx", reset_within=100).contract
    assert not any(memory.initial_value().any() for memory in contract.memories if memory.name == "last_action")


@pytest.mark.parametrize("wrong", ["restart", 3, ["reset"]])
def test_another_source_of_start_values_is_refused(wrong, tmp_path: Path):
    with pytest.raises(ComponentError, match="initial_memory must be"):
        exploy.export(Walking(), make_actor(12), tmp_path / "policy.onnx", initial_memory=wrong)


# -- check and strict export ----------------------------------------------------------------------------------------


@pytest.mark.matrix(2)
@pytest.mark.parametrize("make", [Walking, without_hooks(Cached), GymReacher, Resettable])
def test_a_strict_export_of_the_middle_of_an_episode_is_refused(make: Make, tmp_path: Path):
    env, actor = in_the_middle_of_an_episode(make)
    with pytest.raises(UnregisteredStateError) as raised:
        export_environment_as_onnx(env, actor, tmp_path, strict=True)
    finding = next(item for item in raised.value.diagnosis.errors if "last_action" in item.tensor)
    assert finding.kind is FindingKind.START_VALUE
    memory = env.context_manager().get_component_by_name("last_action").value_numpy
    start = 0.5 if isinstance(env, GymReacher) else 0.0
    index = int(np.abs(memory - start).argmax())
    assert f"{memory[0, index]:.6g} in the file, {start:.6g} after a reset" in finding.what
    assert 'initial_memory="reset"' in finding.suggestion
    assert not list(tmp_path.glob("*.onnx"))


@pytest.mark.matrix
@pytest.mark.parametrize("make", [Walking, without_hooks(Cached), GymReacher, Resettable])
def test_a_strict_export_with_the_values_of_a_reset_is_not(make: Make, tmp_path: Path):
    env, actor = in_the_middle_of_an_episode(make)
    export_environment_as_onnx(env, actor, tmp_path, strict=True, initial_memory="reset")


def test_a_check_that_is_told_the_values_finds_it_too():
    env, actor = in_the_middle_of_an_episode(Walking)
    diagnosis = check(env, actor, initial_memory="found")
    kinds = {item.tensor: item.kind for item in diagnosis.errors}
    assert kinds["memory.last_action.in"] is kinds["memory.history.in"] is FindingKind.START_VALUE


def test_a_check_that_is_not_told_accuses_nobody():
    env, actor = in_the_middle_of_an_episode(Walking)
    diagnosis = check(env, actor)
    assert not [item for item in diagnosis.findings if item.severity is not Severity.INFO]


class RandomPose(Walking):
    """Its filter starts from another pose at each reset."""

    def restart(self) -> None:
        super().restart()
        self.filtered += self.noise(self.filtered)


@pytest.mark.matrix
@pytest.mark.parametrize("make", [RandomPose, without_hooks(RandomPose)])
def test_a_memory_that_starts_at_random_has_no_constant_start(make: Make, tmp_path: Path, capsys):
    diagnosis = check(make(), make_actor(12))
    finding = next(item for item in diagnosis.errors if "filtered" in item.tensor)
    assert finding.kind is FindingKind.NO_CONSTANT_START and "initial_memory" in finding.suggestion
    with pytest.raises(UnregisteredStateError):
        exploy.export(make(), make_actor(12), tmp_path / "policy.onnx")
    env, actor = make(), make_actor(12)
    value = {"filtered": torch.full((1, 2), 0.25)}
    exploy.export(env, actor, tmp_path / "policy.onnx", initial_memory=value)
    assert not run(env, SessionWrapper(tmp_path, "policy.onnx", actor=actor, optimize=False))
    assert "memory.filtered.out" in output(capsys)


class ForgetsTheFilter(Resettable):
    """Its reset() leaves the filter as it is."""

    def restart(self) -> None:
        kept = self.filtered.clone()
        super().restart()
        self.filtered[:] = kept


def test_a_memory_that_no_reset_sets_back_has_no_constant_start():
    diagnosis = exploy.check_environment(ForgetsTheFilter(), make_actor(12))
    (finding,) = diagnosis.errors
    assert (finding.kind, finding.tensor) == (FindingKind.NO_CONSTANT_START, "memory.filtered.in")
    assert "set filtered to a constant in each reset" in finding.suggestion
