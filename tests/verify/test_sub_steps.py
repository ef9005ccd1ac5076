"""Without hooks, every sub-step is compared all the same, if step() shares a function with the stages."""

import cProfile
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from _pytest.mark import ParameterSet

from exploy.diagnosis.finding import FindingKind
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.session_wrapper import SessionWrapper
from tests.support.checking import check
from tests.support.environments import export, make_actor
from tests.support.leg_builds import BUILDS, Delegating, Gymnasium, LeggedGym
from tests.support.legs import NUM_OBSERVATIONS, RIGHT, WRONG, Kind, Legs, Unhooked

Build = Callable[[Legs], Unhooked]


def cases(kinds: tuple[Kind, ...]) -> list[ParameterSet]:
    """Every kind on the delegating build, one kind on each other build; the rest is expensive."""
    cheap = {*((Delegating, kind) for kind in kinds), *zip(BUILDS[1:], kinds * 2, strict=True)}
    pairs = [(build, kind) for build in BUILDS for kind in kinds]
    return [pytest.param(*pair, marks=() if pair in cheap else pytest.mark.expensive) for pair in pairs]


def exported(env: Unhooked, folder: Path) -> SessionWrapper:
    return export(env, make_actor(NUM_OBSERVATIONS), folder, initial_memory="reset")


def agrees(env: Unhooked, session: SessionWrapper, steps: int = 40, **options) -> bool:
    ok, _ = evaluate(env, env.context_manager(), session, steps, verbose=False, pause_on_failure=False, **options)
    return ok


def errors(env: Unhooked) -> list[str]:
    return [str(item) for item in check(env, make_actor(NUM_OBSERVATIONS)).errors]


@pytest.mark.matrix(2)
@pytest.mark.parametrize(("build", "kind"), cases(RIGHT))
def test_a_right_file_agrees_at_every_sub_step(build: Build, kind: Kind, tmp_path: Path, capsys):
    env = build(Legs(kind))
    assert agrees(env, exported(env, tmp_path))
    assert errors(build(Legs(kind))) == []


@pytest.mark.matrix(2)
@pytest.mark.parametrize(("build", "kind"), cases(WRONG))
def test_a_file_that_is_wrong_inside_of_a_step_is_not_green(build: Build, kind: Kind, tmp_path: Path, capsys):
    env = build(Legs(kind))
    session = exported(env, tmp_path)
    assert not agrees(env, session)
    assert "differs" in capsys.readouterr().out
    assert errors(build(Legs(kind))) != []


# -- whoever else watches -------------------------------------------------------------------------------------------


@contextmanager
def profiled_by_c() -> Iterator[None]:
    with cProfile.Profile():
        yield


@contextmanager
def profiled_in_python() -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: None)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def traced() -> Iterator[None]:
    """A tracer that is called for every line, as that of coverage is."""
    before = sys.gettrace()
    lines: set[tuple[str, int]] = set()

    def trace(frame, event, argument):
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
    assert any(name == Delegating.step.__code__.co_filename for name, _ in lines)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [Kind.PLAIN, Kind.COUNTS_IN_PYTHON])
@pytest.mark.parametrize("watched", [profiled_by_c, profiled_in_python, traced])
@pytest.mark.parametrize("build", [LeggedGym, Gymnasium])
def test_the_verdict_is_the_same_under_a_profiler_and_a_tracer(build, watched, kind, tmp_path: Path, capsys):
    env = build(Legs(kind))
    session = exported(env, tmp_path)
    with watched():
        assert agrees(env, session, 8) == (kind is Kind.PLAIN)
    assert ("differs" in capsys.readouterr().out) == (kind is Kind.COUNTS_IN_PYTHON)


# -- what cannot be seen --------------------------------------------------------------------------------------------


class SharesNothing(Delegating):
    """step() has torque and observation code of its own."""

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        legs = self.legs
        legs.accept(actions)
        for number in range(legs.decimation):
            legs.begin_sub_step(number)
            legs.share += legs.growth
            goal = legs.previous + legs.share * (legs.current - legs.previous)
            legs.torque = 20.0 * (goal - legs.position) - 0.3 * legs.contact
            legs.begin_move(number)
            legs.move()
        done = legs.end_step()
        legs.clear_before_observations()
        return torch.cat([legs.position, legs.current, legs.contact], -1), done


def test_what_nobody_can_see_is_not_claimed(tmp_path: Path, capsys):
    env = SharesNothing(Legs(Kind.PLAIN))
    assert not agrees(env, exported(env, tmp_path))
    report = capsys.readouterr().out
    assert (
        "incomplete: memory.current.out, torque could not be compared" in report
        and "sub-steps cannot be seen" in report
    )
    assert "agrees: the file" not in report and "differs" not in report


@pytest.mark.parametrize(("make", "mentioned"), [(SharesNothing, 1), (Delegating, 0)])
def test_a_check_mentions_what_it_could_not_compare(make: Build, mentioned: int):
    diagnosis = check(make(Legs(Kind.PLAIN)), make_actor(NUM_OBSERVATIONS))
    findings = [item for item in diagnosis.findings if item.kind is FindingKind.NOT_OBSERVED]
    assert diagnosis.ok and len(findings) == mentioned
    assert all("torque could not be compared with step()" in item.what for item in findings)


def test_a_fault_that_nobody_can_see_is_not_green(tmp_path: Path, capsys):
    env = SharesNothing(Legs(Kind.COUNTS_IN_PYTHON))
    assert not agrees(env, exported(env, tmp_path))
    assert "agrees: the file" not in capsys.readouterr().out


def test_at_one_rate_there_is_nothing_inside_of_a_step_to_see(tmp_path: Path):
    env = SharesNothing(Legs(Kind.PLAIN, decimation=1))
    assert agrees(env, exported(env, tmp_path))


# -- rates ----------------------------------------------------------------------------------------------------------


@pytest.mark.matrix(2)
@pytest.mark.parametrize("build", [Delegating, LeggedGym])
@pytest.mark.parametrize("decimation", [1, 40])
def test_all_sub_steps_are_compared_at_any_decimation(build, decimation, tmp_path: Path, capsys):
    env = build(Legs(Kind.COUNTS_IN_MEMORY, decimation))
    session = exported(env, tmp_path)
    ok, _ = evaluate(env, env.context_manager(), session, 5, pause_on_failure=False)
    assert ok
    row = next(line for line in capsys.readouterr().out.splitlines() if "torque" in line)
    assert f" {5 * decimation} " in row


@pytest.mark.expensive
def test_a_fault_at_the_last_but_one_of_forty_sub_steps_is_found(tmp_path: Path, capsys):
    class Late(Legs):
        def begin_sub_step(self, number: int) -> None:
            self.share = 0.5 if number == 38 else 1.0

    env = LeggedGym(Late(Kind.PLAIN, decimation=40))
    assert not agrees(env, exported(env, tmp_path), 5)
    assert "sub-step 38" in capsys.readouterr().out
    assert errors(LeggedGym(Late(Kind.PLAIN, decimation=40))) != []


# -- what is seen only now and then ---------------------------------------------------------------------------------


class SharesAtFirst(SharesNothing):
    """step() has a law of its own after some steps."""

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return Delegating.step(self, actions) if self.legs._steps < 3 else super().step(actions)


class HooksAtFirst(SharesNothing):
    """step() does not call the hooks any more after some steps."""

    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        def evaluate_at_first(number: int) -> None:
            if self.legs._steps < 3:
                evaluate_substep(number)

        self.legs.begin_move = evaluate_at_first  # type: ignore[method-assign]


@pytest.mark.parametrize("build", [SharesAtFirst, HooksAtFirst])
def test_steps_that_are_seen_do_not_stand_for_steps_that_are_not(build, tmp_path: Path, capsys):
    env = build(Legs(Kind.PLAIN))
    assert not agrees(env, exported(env, tmp_path))
    report = " ".join(capsys.readouterr().out.split())
    assert "incomplete: memory.current.out, torque could not be compared" in report
    assert "not compared at step 3: sub-steps cannot be seen" in report


class WeakMotors(Delegating):
    """step() weakens the torque after the shared function has returned, before the simulator gets it."""

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        legs = self.legs
        legs.accept(actions)
        for _ in range(legs.decimation):
            self.inner.apply_torque()
            legs.torque *= 0.9
            legs.move()
        return self.inner.observe(), legs.end_step()


@pytest.mark.parametrize("decimation", [1, 4])
def test_an_output_that_step_changes_before_the_simulator_moves_differs(decimation, tmp_path: Path, capsys):
    env = WeakMotors(Legs(Kind.PLAIN, decimation))
    assert not agrees(env, exported(env, tmp_path))
    assert "differs: the file does NOT agree" in capsys.readouterr().out
    assert errors(WeakMotors(Legs(Kind.PLAIN, decimation))) != []
