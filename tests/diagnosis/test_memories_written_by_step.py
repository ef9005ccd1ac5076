"""A memory that step() writes and no stage does cannot be followed by a file: it is named, with hooks and without."""

from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.exporter.core.components import Input, Memory
from tests.support.builds import (
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
from tests.support.environments import make_actor

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")


class WritesLastVelocity(Body):
    """As in legged_gym: `self.last_dof_vel[:] = self.dof_vel` at the end of step()."""

    def setup(self) -> None:
        self.last = torch.zeros(1, 2)

    def components(self) -> list[Any]:
        return [*super().components(), Memory("last", lambda: self.last)]

    def observe(self) -> torch.Tensor:
        return torch.cat([self.pos, self.vel - self.last], -1)

    def end_step(self) -> None:
        self.last[:] = self.vel

    def restart(self) -> None:
        super().restart()
        self.last = torch.zeros(1, 2)


class ReplacesLastPosition(WritesLastVelocity):
    """Another tensor after each step, made before the simulator moves."""

    def move(self) -> None:
        last = self.pos.clone()
        super().move()
        self.last = last

    def end_step(self) -> None:
        pass


class AddsToWhatIsWritten(WritesLastVelocity):
    """The pipeline writes the memory, and step() adds to it."""

    def accept(self, actions: torch.Tensor) -> None:
        super().accept(actions)
        self.last[:] = 0.5 * actions

    def end_step(self) -> None:
        self.last += 0.1


class AddsToWhatStartsAnywhere(AddsToWhatIsWritten):
    """A reset draws the start value, which is another fault."""

    def restart(self) -> None:
        super().restart()
        self.last = torch.randn(1, 2, generator=self._noise)


class LastActionInTheStage(WritesLastVelocity):
    """Sound: the stage writes it, and step() does not."""

    def accept(self, actions: torch.Tensor) -> None:
        super().accept(actions)
        self.last[:] = actions

    def end_step(self) -> None:
        pass


class LastVelocityAsInput(WritesLastVelocity):
    """Sound: the robot gives it."""

    def components(self) -> list[Any]:
        return [*Body.components(self), Input("last", lambda: self.last)]


WRONG = [
    (LeggedGym, WritesLastVelocity, "end_step)"),
    (Gymnasium, WritesLastVelocity, "end_step)"),
    (Hooked, WritesLastVelocity, "end_step)"),
    (Managed, ReplacesLastPosition, "move)"),
    (Gymnasium, ReplacesLastPosition, "move)"),
    (LeggedGym, AddsToWhatIsWritten, "end_step)"),
    (LeggedGym, AddsToWhatStartsAnywhere, "end_step)"),
]
SOUND = [(LeggedGym, LastActionInTheStage), (Gymnasium, LastActionInTheStage), (Managed, LastVelocityAsInput)]


@pytest.mark.matrix(3)
@pytest.mark.parametrize(("kind", "body", "function"), WRONG, ids=name_of)
def test_the_check_names_the_memory_and_the_function_that_writes_it(kind, body, function):
    finding = assert_found(build(kind, body), make_actor(4), FindingKind.WRITTEN_BY_STEP, "memory.last.in")
    assert finding.where.endswith(f"(in {function}")


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body", "function"), WRONG, ids=name_of)
def test_a_strict_export_refuses_it_and_a_file_of_another_differs(kind, body, function, tmp_path: Path, capsys):
    assert_refused(build(kind, body), make_actor(4), tmp_path, "memory.last.in")
    assert not evaluates(build(kind, body), make_actor(4), tmp_path)
    assert "memory.last.out" in capsys.readouterr().out


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), SOUND, ids=name_of)
def test_what_the_pipeline_writes_or_the_robot_gives_is_fine(kind, body, tmp_path: Path):
    assert_sound(build(kind, body), make_actor(4), tmp_path)
