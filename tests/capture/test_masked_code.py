"""Code with masks, positions and branches that depend on inputs exports, or is refused with its line."""

import inspect
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.capture.capture import capture
from exploy.diagnosis.finding import FindingKind
from exploy.errors import DataDependentError, DroppedCheckWarning
from exploy.exporter.core.components import Memory
from tests.support import masked_code
from tests.support.builds import BUILDS, Body, assert_sound, build, name_of
from tests.support.checking import check
from tests.support.environments import assert_agrees, make_actor
from tests.support.masked_code import FOLLOWED, REFUSED, Masked

Code = Callable[[Masked], torch.Tensor]


@pytest.mark.matrix
@pytest.mark.parametrize("robots", [3, 1])
@pytest.mark.parametrize("code", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_the_file_agrees(code: Code, robots: int, tmp_path: Path):
    assert_agrees(Masked(code, robots), make_actor(4), tmp_path)


class Masking(Body):
    """Idioms of masks in all stages: joints beyond limits, contacts that come and go, a ring of old actions."""

    def setup(self) -> None:
        self.held = torch.zeros(1, 2)
        self.ring = torch.zeros(3, 1, 2)
        self.pointer = torch.zeros((), dtype=torch.long)

    def components(self) -> list[Any]:
        return [
            *super().components(),
            Memory("held", lambda: self.held),
            Memory("ring", lambda: self.ring),
            Memory("pointer", lambda: self.pointer),
        ]

    def observe(self) -> torch.Tensor:
        assert not torch.isnan(self.pos).any()
        beyond = self.pos.abs() > 0.3
        if beyond.any():
            self.held[beyond] = 0.5 * self.held[beyond] + self.pos[beyond]
        return torch.cat([self.held, self.vel + self.ring[(self.pointer + 1) % 3]], -1)

    def accept(self, actions: torch.Tensor) -> None:
        self.pointer[...] = (self.pointer + 1) % 3
        self.ring[self.pointer] = actions
        super().accept(actions)
        ids = (self.vel[:, 0] > 0).nonzero(as_tuple=False).flatten()
        self.targets[ids, 0] = self.ring[self.pointer - 1][ids, 1].clamp(-0.5, 0.5)

    def restart(self) -> None:
        super().restart()
        self.held[:] = 0
        self.ring[:] = 0
        self.pointer[...] = 0


def test_masks_are_followed_where_nothing_is_registered():
    env = Masked(lambda env: env.count.nonzero().sum() + env.x)
    for name in ("x", "y", "buffer", "ring", "pointer", "count", "targets"):
        env.context_manager().remove_component(name)
    assert not capture(env, make_actor(4)).input_names


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
@pytest.mark.filterwarnings("ignore::exploy.errors.DroppedCheckWarning")
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    assert_sound(build(kind, Masking), make_actor(4), tmp_path, steps=100)


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED.keys())
def test_what_a_file_cannot_express_is_refused_with_its_line(code: Code):
    env = Masked(code)
    before = env.x.clone()
    with pytest.raises(DataDependentError) as caught:
        capture(env, make_actor(4).eval())
    assert f"{Path(masked_code.__file__).name}:{refused_line(code)}" in str(caught.value)
    assert "torch.where" in str(caught.value) or "clone()" in str(caught.value)
    assert torch.equal(env.x, before) and env.resets == 0 and env.info == {}


def refused_line(code: Code) -> int:
    lines, first = inspect.getsourcelines(code)
    return first + next(number for number, line in enumerate(lines) if "# refused" in line)


def test_a_function_in_a_branch_that_does_more_is_refused_with_its_line():
    with pytest.raises(DataDependentError, match="resets` is no part of a tensor") as caught:
        capture(Masked(masked_code.a_function_that_counts), make_actor(4).eval())
    line = inspect.getsourcelines(Masked.count_resets)[1] + 2
    assert f"masked_code.py:{line}" in str(caught.value)


@pytest.mark.parametrize("mask", ["env.x", "env.y"])
def test_the_mask_of_a_choice_in_a_library_is_looked_at(mask: str, tmp_path: Path):
    folder = tmp_path / "site-packages"  # lines of installed code are not those that messages name
    folder.mkdir()
    code = f"""
def chosen(env, torch):
    x = env.y
    if (env.x > 0).any():
        x = torch.where({mask} > 0, x + 1, x)
    return x
"""
    (folder / "library_of_choices.py").write_text(code)
    library = runpy.run_path(str(folder / "library_of_choices.py"))
    env = Masked(lambda env: library["chosen"](env, torch))
    if mask == "env.x":
        capture(env, make_actor(4).eval())
    else:
        with pytest.raises(DataDependentError, match="a choice without that mask"):
            capture(env, make_actor(4).eval())


def test_a_refusal_that_the_environment_catches_is_still_an_error():
    def caught(env: Masked) -> torch.Tensor:
        try:
            return env.x * len(env.x[env.x > 0])
        except Exception:
            return env.x

    with pytest.raises(DataDependentError, match="number of elements"):
        capture(Masked(caught), make_actor(4).eval())


def test_checks_of_values_are_dropped_and_said(tmp_path: Path):
    lines, first = inspect.getsourcelines(masked_code.asserted)
    checks = [first + number for number, line in enumerate(lines) if line.strip().startswith(("assert", "if", "torch"))]
    with pytest.warns(DroppedCheckWarning) as warned:
        assert_agrees(Masked(masked_code.asserted), make_actor(4), tmp_path, steps=5)
    assert all(f"masked_code.py:{line} " in str(warned[0].message) for line in checks)
    diagnosis = check(Masked(masked_code.asserted), make_actor(4))
    found = [item for item in diagnosis.findings if item.kind is FindingKind.DROPPED_CHECK]
    assert diagnosis.ok and len(found) == len(checks)
    assert all(f"masked_code.py:{line} " in item.where for line, item in zip(checks, found, strict=True))


def test_a_check_that_fails_during_the_capture_raises_as_it_does_without():
    env = Masked(masked_code.asserted)
    env.x[0, 0] = float("nan")
    with pytest.raises(AssertionError, match="not a number"):
        capture(env, make_actor(4).eval())


def test_a_check_whose_error_is_caught_by_a_caller_is_refused():
    with pytest.raises(DataDependentError, match=r"masked_code.py:\d+ \(in positive\)"):
        capture(Masked(masked_code.a_caught_error), make_actor(4).eval())


def test_a_check_that_also_changes_the_environment_is_refused():
    code = masked_code.branch_that_prints_and_counts
    with pytest.raises(DataDependentError, match=f"masked_code.py:{refused_line(code)}"):
        capture(Masked(code), make_actor(4).eval())
