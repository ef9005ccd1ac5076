"""What moves rarely, or at resets alone, is found across resets; what was not seen is said."""

from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.exporter.core.components import Input
from exploy.verify.start_values import RESET_WITHIN
from tests.support.builds import (
    BUILDS,
    Body,
    Gymnasium,
    Hooked,
    LeggedGym,
    Managed,
    assert_found,
    assert_refused,
    assert_sound,
    build,
    evaluates,
    name_of,
)
from tests.support.checking import check
from tests.support.environments import make_actor

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")


class CommandAtReset(Body):
    """A velocity command that each reset draws anew."""

    command: Any

    def setup(self) -> None:
        self.command = torch.tensor([[0.5, 0.1]])

    def observe(self) -> torch.Tensor:
        return torch.cat([self.pos, self.vel - self.command], -1)

    def restart(self) -> None:
        super().restart()
        self.command = torch.rand(1, 2, generator=self._noise)


class CommandNowAndThen(CommandAtReset):
    """As in legged_gym: resampled in place after so many steps, and the episode does not end."""

    reset_every = 10**6

    def setup(self) -> None:
        super().setup()
        self.count = 0

    def end_step(self) -> None:
        self.count += 1
        if self.count % 150 == 0:
            self.command[:] = torch.rand(1, 2, generator=self._noise)

    def restart(self) -> None:
        Body.restart(self)


class CommandInPython(CommandAtReset):
    """The command is a Python number."""

    def setup(self) -> None:
        self.command = 0.5

    def restart(self) -> None:
        Body.restart(self)
        self.command = float(torch.rand(1, generator=self._noise))


class CommandInPythonNowAndThen(CommandNowAndThen):
    """A Python number that `step()` draws anew, beside a counter that no result depends on."""

    def setup(self) -> None:
        super().setup()
        self.command = 0.5

    def end_step(self) -> None:
        self.count += 1
        if self.count % 150 == 0:
            self.command = float(torch.rand(1, generator=self._noise))


class Pulse(CommandNowAndThen):
    """A push that lasts for one step."""

    def end_step(self) -> None:
        self.count += 1
        self.command[:] = 0.5 if self.count % 150 else 2.0


class GainsAtReset(CommandAtReset):
    """Gains that a reset randomises."""

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = self.command * actions

    def observe(self) -> torch.Tensor:
        return Body.observe(self)


class NoiseAfterReset(CommandInPython):
    """The first reset switches noise on."""

    def setup(self) -> None:
        self.command = False

    def observe(self) -> torch.Tensor:
        observations = Body.observe(self)
        return observations + 0.1 * torch.randn(1, 4) if self.command else observations

    def restart(self) -> None:
        Body.restart(self)
        self.command = True


class RegisteredCommand(CommandAtReset):
    """Sound: the command is an Input."""

    def components(self) -> list[Any]:
        return [*super().components(), Input("command", lambda: self.command)]


class SetToTheSame(CommandAtReset):
    """Sound: each reset makes another tensor with the same values."""

    def restart(self) -> None:
        Body.restart(self)
        self.command = torch.tensor([[0.5, 0.1]])


class ForTheRewardAlone(CommandAtReset):
    """Sound: no result depends on it."""

    def observe(self) -> torch.Tensor:
        self.reward = (self.vel - self.command).square().sum()
        return Body.observe(self)


INPUT, PYTHON = FindingKind.UNREGISTERED_INPUT, FindingKind.PYTHON_STATE
WRONG = [
    (LeggedGym, CommandAtReset, INPUT),
    (Gymnasium, CommandAtReset, INPUT),
    (Managed, CommandAtReset, INPUT),
    (LeggedGym, CommandNowAndThen, INPUT),
    (Managed, CommandNowAndThen, INPUT),
    (Hooked, CommandNowAndThen, INPUT),
    (Gymnasium, CommandNowAndThen, INPUT),
    (Managed, CommandInPythonNowAndThen, PYTHON),
    (Managed, Pulse, INPUT),
    (Gymnasium, CommandInPython, PYTHON),
    (Managed, CommandInPython, PYTHON),
    (LeggedGym, GainsAtReset, INPUT),
    (LeggedGym, NoiseAfterReset, PYTHON),
]
SOUND = [(LeggedGym, RegisteredCommand), (Gymnasium, SetToTheSame), (Managed, ForTheRewardAlone)]


@pytest.mark.matrix(5)
@pytest.mark.parametrize(("kind", "body", "finding"), WRONG, ids=name_of)
def test_the_check_names_what_moves(kind, body, finding):
    assert_found(build(kind, body), make_actor(4), finding, f"{BUILDS[kind]}.command", reset_within=RESET_WITHIN)


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body", "finding"), WRONG, ids=name_of)
def test_a_strict_export_refuses_it_and_a_file_of_another_differs(kind, body, finding, tmp_path: Path):
    assert_refused(build(kind, body), make_actor(4), tmp_path, f"{BUILDS[kind]}.command")
    assert not evaluates(build(kind, body), make_actor(4), tmp_path, steps=200)


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), SOUND, ids=name_of)
def test_what_is_registered_or_stays_the_same_is_fine(kind, body, tmp_path: Path):
    assert_sound(build(kind, body), make_actor(4), tmp_path)


def test_a_finding_says_when_the_tensor_changed():
    at_reset = assert_found(build(Managed, CommandAtReset), make_actor(4), INPUT, f"{BUILDS[Managed]}.command")
    assert "changed after a reset, not in the 20 steps before" in at_reset.what
    env = build(Hooked, CommandNowAndThen)
    later = assert_found(env, make_actor(4), INPUT, f"{BUILDS[Hooked]}.command", reset_within=RESET_WITHIN)
    assert "changed 150 steps after the export" in later.what


def test_a_check_says_what_never_moved_and_how_long_it_looked():
    diagnosis = check(build(Managed, CommandNowAndThen), make_actor(4), reset_within=60)
    (finding,) = [item for item in diagnosis.findings if item.kind is FindingKind.FROZEN]
    assert diagnosis.ok and finding.tensor == f"{BUILDS[Managed]}.command"
    assert "never changed in 80 steps and 2 resets" in finding.what


def test_a_simulator_that_ends_after_the_steps_asked_for_is_not_at_fault():
    class Recorded(RegisteredCommand):
        left = 100

        def end_step(self) -> None:
            self.left -= 1
            if self.left == 0:
                raise StopIteration("the recording has ended")

    diagnosis = check(build(Managed, Recorded), make_actor(4), reset_within=RESET_WITHIN)
    (finding,) = [item for item in diagnosis.findings if item.kind is FindingKind.NOT_OBSERVED]
    assert diagnosis.ok
    assert "raised StopIteration in step 100 (the recording has ended); what changes later was not seen" in finding.what


def test_a_check_says_that_it_saw_no_reset():
    class Endless(CommandAtReset):
        reset_every = 10**6

    diagnosis = check(build(LeggedGym, Endless), make_actor(4), reset_within=30)
    (no_reset,) = [item for item in diagnosis.findings if item.kind is FindingKind.NO_RESET_SEEN]
    assert "no reset in the 20 steps watched, and none in 30 more" in no_reset.what
    (frozen,) = [item for item in diagnosis.findings if item.kind is FindingKind.FROZEN]
    assert "never changed in 50 steps and no resets" in frozen.what
