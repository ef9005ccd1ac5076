"""Frozen tensors that change in an evaluation: what is said of them is what the check says of them."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.exporter.core.actor import ExportableActor, make_exportable_actor
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.session_wrapper import SessionWrapper
from exploy.verify import frozen_influence
from tests.support.checking import check
from tests.support.environments import TestEnvironment, export, make_actor

pytestmark = pytest.mark.expensive


class Pose(TestEnvironment):
    """Position and orientation in one buffer, of which the policy uses the orientation; with hooks."""

    def __init__(self) -> None:
        super().__init__(reset_every=50)
        self.gain = torch.tensor(2.0)
        self.make_pose()
        self.context_manager().add_components([self.quat(), Output("targets", lambda: self.targets)])

    def quat(self) -> Input:
        return Input("quat", lambda: self.root[:, 3:7])

    def make_pose(self) -> None:
        self.root = torch.cat([torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0, 0.0]])], -1)

    def pose(self) -> torch.Tensor:
        return self.root

    def observe(self):
        return self.gain * (self.pose() * 1.0)[:, 3:7]

    def move(self):
        self.root += self.noise(self.root)


class ReboundPose(Pose):
    """The simulator makes a new tensor at each step, and calls no hooks."""

    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        pass

    def move(self):
        position, orientation = self.root[:, :3], self.root[:, 3:]
        self.root = torch.cat([position + 0.1, orientation + self.noise(orientation)], -1)


class PoseWithState(Pose):
    """Also remembers the last actions."""

    def __init__(self) -> None:
        self.last = torch.zeros(1, 2)
        super().__init__()
        self.context_manager().add_component(Memory("last", lambda: self.last))

    def observe(self):
        return super().observe() + self.last.repeat(1, 2)

    def process_actions(self, actions):
        super().process_actions(actions)
        self.last[:] = actions


class Floating(gymnasium.Env[np.ndarray, np.ndarray]):
    """A body in the manner of gymnasium: its pose is one numpy array."""

    def __init__(self) -> None:
        self.state = np.array([[0, 0, 0, 1, 0, 0, 0]], np.float32)
        self._drift = np.random.default_rng(0)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.state += 0.1 * self._drift.standard_normal(self.state.shape, np.float32)
        return self.state, 0.0, False, False, {}


class GymnasiumPose(Pose):
    def make_pose(self) -> None:
        self.body = Floating()

    def quat(self) -> Input:
        return Input("quat", lambda: torch.from_numpy(self.body.state)[:, 3:7])

    def pose(self) -> torch.Tensor:
        return torch.from_numpy(self.body.state)

    def move(self):
        self.body.step(self.targets.numpy())


NAMES = {Pose: "env.root", ReboundPose: "env.root", PoseWithState: "env.root", GymnasiumPose: "env.body.state"}
KINDS = pytest.mark.parametrize("kind", NAMES)


def using_position(kind: type[Pose]) -> Pose:
    """The same environment, but its observations use the position as well."""

    class UsingPosition(kind):  # type: ignore[misc, valid-type]
        def observe(self):
            return super().observe() + self.pose()[:, 0:1]

    return UsingPosition()


def evaluated(env: Pose, session: SessionWrapper, steps: int = 20, **options: Any) -> bool:
    options = {"verbose": True, "pause_on_failure": False, **options}
    return evaluate(env, env.context_manager(), session, steps, **options)[0]


def lines_about(name: str, text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"{name} is frozen in the file")]


def told_by_the_check(env: Pose, actor: ExportableActor) -> list[tuple[FindingKind, str]]:
    findings = check(env, actor).findings
    return [(item.kind, item.what) for item in findings if item.tensor.startswith(("env.root", "env.body.state"))]


# -- one judgement ----------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@KINDS
def test_a_change_that_nothing_depends_on_is_not_mentioned_where_the_file_agrees(kind, tmp_path: Path, capsys):
    env, actor = kind(), make_actor(4)
    session = export(env, actor, tmp_path)
    capsys.readouterr()
    assert evaluated(env, session)
    assert "frozen in the file" not in capsys.readouterr().out
    assert session.contract is not None and NAMES[kind] in [item.name for item in session.contract.frozen]
    told = told_by_the_check(kind(), make_actor(4))
    assert told == [(FindingKind.FROZEN, "changed, but no result depends on it; the file keeps its value")]


@pytest.mark.matrix(2)
@KINDS
def test_where_the_file_differs_it_is_not_blamed(kind, tmp_path: Path, capsys):
    env, actor = kind(), make_actor(4)
    session = export(env, actor, tmp_path)
    env.gain.fill_(3.0)
    capsys.readouterr()
    assert not evaluated(env, session)
    report = capsys.readouterr().out
    (line,) = lines_about(NAMES[kind], report)
    assert line.endswith(": no output depends on it.")
    (line,) = lines_about("env.gain", report)
    assert line.endswith("at step 0: register it as an Input or Memory.")


@pytest.mark.matrix
@KINDS
def test_a_change_that_results_depend_on_is_to_be_registered(kind, tmp_path: Path, capsys):
    env, actor = using_position(kind), make_actor(4)
    session = export(env, actor, tmp_path)
    capsys.readouterr()
    assert not evaluated(env, session)
    (line,) = lines_about(NAMES[kind], capsys.readouterr().out)
    assert line.endswith(": register it as an Input or Memory.")
    assert [kind for kind, _ in told_by_the_check(using_position(kind), actor)] == [FindingKind.UNREGISTERED_INPUT]


def test_elements_that_change_later_count_as_well(tmp_path: Path, capsys):
    class Later(Pose):
        """The orientation is not registered, and does not change before step 5."""

        def __init__(self) -> None:
            super().__init__()
            self.context_manager().remove_component("quat")
            self.height = torch.ones(1, 1)
            self.context_manager().add_component(Input("height", lambda: self.height))

        def observe(self):
            return super().observe() * self.height

        def move(self):
            self.root[:, :3] += 0.1
            self.root[:, 3:] += 0.1 * (self._steps >= 5)

    lines = []
    for steps in (4, 10):
        env, actor = Later(), make_actor(4)
        session = export(env, actor, tmp_path)
        capsys.readouterr()
        assert evaluated(env, session, steps) == (steps == 4)
        lines.append(lines_about("env.root", capsys.readouterr().out))
    assert lines[0] == []
    assert lines[1] == [
        "env.root is frozen in the file, but changed in the environment at step 1: register it as an Input or Memory."
    ]


def test_a_change_before_the_first_step_counts_as_one_of_all_elements(tmp_path: Path, capsys):
    env, actor = using_position(Pose), make_actor(4)
    session = export(env, actor, tmp_path)
    env.root[:, 0] = 7.0
    env.move = lambda: None  # type: ignore[method-assign]
    capsys.readouterr()
    assert not evaluated(env, session, 3)
    (line,) = lines_about("env.root", capsys.readouterr().out)
    assert line.endswith("at step 0: register it as an Input or Memory.")


def test_equal_nans_are_no_change(tmp_path: Path, capsys):
    env, actor = Pose(), make_actor(4)
    env.root[0, 0] = float("nan")
    session = export(env, actor, tmp_path)
    env.move = lambda: env.root[:, 3:].add_(0.1)  # type: ignore[method-assign]
    env.gain.fill_(3.0)
    capsys.readouterr()
    assert not evaluated(env, session, 3)
    assert lines_about("env.root", capsys.readouterr().out) == []


# -- how it is found out ----------------------------------------------------------------------------------------------


def fail(*_: object) -> None:
    raise RuntimeError("cannot be captured")


@pytest.mark.parametrize("without", ["actor", "capture"])
def test_what_cannot_be_judged_is_told_as_it_was_seen(without, tmp_path: Path, capsys, monkeypatch):
    env, actor = Pose(), make_actor(4)
    session = export(env, actor, tmp_path)
    if without == "actor":
        session = SessionWrapper(tmp_path, "policy.onnx")
    else:
        monkeypatch.setattr(frozen_influence, "capture", fail)
    capsys.readouterr()
    assert evaluated(env, session)
    (line,) = lines_about("env.root", capsys.readouterr().out)
    assert "no output differs yet; register it as an Input or Memory, or declare it with add_constant()" in line


@pytest.mark.parametrize("quiet", ["nothing is printed", "nothing has changed", "it is declared"])
def test_nothing_is_captured_again_where_there_is_nothing_to_judge(quiet, tmp_path: Path, monkeypatch):
    env, actor = Pose(), make_actor(4)
    if quiet == "it is declared":
        env.context_manager().add_constant("root", lambda: env.root)
    session = export(env, actor, tmp_path)
    if quiet == "nothing has changed":
        env.move = lambda: None  # type: ignore[method-assign]
    monkeypatch.setattr(frozen_influence, "capture", lambda *_: pytest.fail("captured again"))
    assert evaluated(env, session, verbose=quiet != "nothing is printed")


def test_judging_changes_neither_environment_nor_actor(tmp_path: Path):
    judged, alone = PoseWithState(), PoseWithState()
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5))
    actor = make_exportable_actor(plain)
    sessions = [export(env, actor, tmp_path / name) for env, name in ((judged, "judged"), (alone, "alone"))]
    before = torch.get_rng_state()
    assert evaluated(judged, sessions[0], verbose=True)
    assert evaluated(alone, sessions[1], verbose=False)
    assert torch.equal(judged.root, alone.root) and torch.equal(judged.last, alone.last)
    assert plain.training and plain[1].training
    assert torch.equal(torch.get_rng_state(), before)


def test_while_the_evaluation_is_paused_changes_are_named_without_advice(tmp_path: Path, capsys, monkeypatch):
    env, actor = Pose(), make_actor(4)
    session = export(env, actor, tmp_path)
    env.gain.fill_(3.0)
    paused: list[str] = []
    monkeypatch.setattr("exploy.verify.evaluator.has_terminal", lambda: True)
    monkeypatch.setattr("builtins.input", lambda *_: paused.append(capsys.readouterr().out))
    capsys.readouterr()
    assert not evaluated(env, session, pause_on_failure=True)
    (line,) = lines_about("env.gain", paused[0])
    assert line.endswith("but changed in the environment at step 0.")
    (line,) = lines_about("env.gain", capsys.readouterr().out)
    assert line.endswith("register it as an Input or Memory.")
