"""Substitutes in a check, an export and an evaluation: what the pipeline calls is in the file, and nothing stays."""

from pathlib import Path
from typing import Any

import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import MetadataError, SubstituteError, UnusedSubstituteWarning
from exploy.runtime.model_file import ModelFile
from exploy.verify.file_diff import compare_files
from tests.support.builds import BUILDS, Hooked, assert_sound, build, name_of
from tests.support.checking import check
from tests.support.command_line import run
from tests.support.environments import make_actor
from tests.support.ring_robots import Ring, RingRobot, Shifting, shifting_rings

pytestmark = pytest.mark.expensive


class OneFrameTooOld(Shifting):
    """The planted error: it looks one frame too far back."""

    push = Shifting.push

    def ago(self: Any, steps: int) -> torch.Tensor:
        return self.frames[-2 - steps].clone()[None] if steps < 2 else self.frames[-1 - steps].clone()[None]


def ring_robot(kind: type[Any] = Hooked, replacement: type = Shifting) -> Any:
    env = build(kind, RingRobot, warm=3)
    env.context_manager().add_substitute(shifting_rings(replacement))
    return env


def state_of(env: Any) -> list[Any]:
    """The code of the class, and the state of all rings with the identity of their tensors."""
    rings = [env.body.history, env.body.delay]
    codes = [Ring.push.__code__, Ring.ago.__code__, Ring.clear.__code__, Ring.__init__.__code__]
    return [*codes, *((type(ring), ring.newest, id(ring.frames), ring.frames.tolist()) for ring in rings)]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    assert_sound(ring_robot(kind), make_actor(4), tmp_path, steps=100)


def test_without_the_substitute_the_check_finds_the_pointer():
    errors = check(build(Hooked, RingRobot, warm=3), make_actor(4)).errors
    assert any(item.kind is FindingKind.PYTHON_STATE and item.tensor.endswith(".newest") for item in errors)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a substitute; the robot is as before the export."""
    env = ring_robot()
    before = state_of(env)
    result = exploy.export(env, make_actor(4), tmp_path_factory.mktemp("file") / "policy.onnx", strict=False)
    assert state_of(env) == before
    return result.path


def test_the_file_lists_the_substitutes_that_it_uses(exported: Path):
    (item,) = ModelFile.load(exported).contract.substitutes or ()
    assert (item.original, item.replacement) == (f"{Ring.__module__}.Ring", f"{Shifting.__module__}.Shifting")
    assert item.comparisons >= 100 and item.largest_error == 0
    shown = (
        f"substitute {item.replacement} for {item.original} ({item.comparisons} calls compared, largest difference 0)"
    )
    assert shown in run("inspect", exported).stdout


def test_a_file_without_substitutes_says_nothing_of_them_and_a_diff_shows_it(exported: Path, tmp_path: Path):
    env = build(Hooked, RingRobot, warm=3)
    plain = exploy.export(env, make_actor(4), tmp_path / "plain.onnx", strict=False, verify_environment=False)
    assert plain.contract.substitutes is None and "substitutes" not in plain.contract.to_json()
    changes = compare_files(exploy.Controller.load(exported), exploy.Controller.load(plain.path)).other
    named = [(item.what, item.old, item.new) for item in changes if "substitute" in item.what]
    assert named == [(f"substitute for {Ring.__module__}.Ring", f"{Shifting.__module__}.Shifting", None)]


def test_a_wrong_substitute_is_a_finding_with_its_line():
    env = ring_robot(replacement=OneFrameTooOld)
    before = state_of(env)
    (finding,) = check(env, make_actor(4)).findings
    assert finding.kind is FindingKind.WRONG_SUBSTITUTE
    line = OneFrameTooOld.ago.__code__.co_firstlineno
    assert finding.where == f"{__file__}:{line} (in ago)"
    assert (
        "ago)): result in call" in finding.what and f"ring_robots.py:{Ring.ago.__code__.co_firstlineno}" in finding.what
    )
    assert state_of(env) == before


@pytest.mark.parametrize("strict", [True, False])
def test_a_wrong_substitute_is_not_exported(strict: bool, tmp_path: Path):
    env = ring_robot(replacement=OneFrameTooOld)
    before = state_of(env)
    with pytest.raises(SubstituteError, match=r"OneFrameTooOld does not do what .*Ring does"):
        exploy.export(env, make_actor(4), tmp_path / "policy.onnx", strict=strict)
    assert not list(tmp_path.iterdir())
    assert state_of(env) == before


def test_a_wrong_substitute_is_not_evaluated(exported: Path):
    env = ring_robot(replacement=OneFrameTooOld)
    before = state_of(env)
    session = exploy.SessionWrapper(exported.parent, exported.name, make_actor(4))
    with pytest.raises(SubstituteError):
        exploy.evaluate(env, env.context_manager(), session, 5, verbose=False)
    assert state_of(env) == before


def test_after_an_export_that_fails_for_another_reason_all_is_as_before(tmp_path: Path):
    env = ring_robot()
    before = state_of(env)
    env.metadata = lambda: {"unknown": object()}
    with pytest.raises(MetadataError):
        exploy.export(env, make_actor(4), tmp_path / "policy.onnx", strict=False)
    assert state_of(env) == before


def test_after_an_evaluation_the_ring_is_as_without_it(exported: Path):
    env, twin, actor = ring_robot(), build(Hooked, RingRobot, warm=3), make_actor(4)
    session = exploy.SessionWrapper(exported.parent, exported.name, actor)
    assert exploy.evaluate(env, env.context_manager(), session, 7, verbose=False)[0]
    with torch.no_grad():
        observations = twin.observations_reset()
        for _ in range(7):
            observations, _ = twin.step(actor(observations))
    assert env.body.history.newest == twin.body.history.newest
    assert torch.equal(env.body.history.frames, twin.body.history.frames)
    assert torch.equal(env.body.delay.frames, twin.body.delay.frames)


def unrelated(x: torch.Tensor) -> torch.Tensor:
    return x


def test_a_substitute_that_nothing_calls_is_said_and_not_listed(tmp_path: Path):
    env = build(Hooked, RingRobot, warm=3)
    env.context_manager().add_substitutes([shifting_rings(), exploy.substitute(unrelated, lambda x: 2 * x)])
    found = [item for item in check(env, make_actor(4)).findings if item.kind is FindingKind.UNUSED]
    assert [item.tensor for item in found] == [f"{__name__}.unrelated"]
    with pytest.warns(UnusedSubstituteWarning, match=rf"does not call {__name__}.unrelated"):
        result = exploy.export(env, make_actor(4), tmp_path / "policy.onnx", strict=False)
    assert [item.original for item in result.contract.substitutes or ()] == [f"{Ring.__module__}.Ring"]
