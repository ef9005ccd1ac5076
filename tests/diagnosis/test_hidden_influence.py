"""State whose influence shows only at rare values is found: counts that are compared, flags, and dead zones."""

from pathlib import Path

import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.exporter.core.components import Input, Output
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
from tests.support.environments import TestEnvironment, make_actor

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")


class Pushes(Body):
    """Counts down to a push; one more or less than five changes nothing."""

    def setup(self) -> None:
        self.pushes = torch.tensor([[40]])

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = torch.where(self.pushes == 0, 2 * actions, actions)
        self.pushes[:] = (self.pushes - 1).clamp(min=0)


class PushesAtSeven(Pushes):
    """Compared with a number that no probe tries, by a count that wraps around."""

    def setup(self) -> None:
        self.pushes = torch.tensor([[47]], dtype=torch.int32)

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = torch.where(self.pushes == 7, 2 * actions, actions)
        self.pushes = (self.pushes - 1) % 50


class Period(Pushes):
    """A period in a tensor."""

    def setup(self) -> None:
        self.pushes = torch.tensor([[1]])

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = torch.where(self.pushes % 37 == 0, 2 * actions, actions)
        self.pushes += 1


class FallenFlag(Pushes):
    """step() sets a flag at a reset, and the pipeline combines it with another."""

    def setup(self) -> None:
        self.pushes = torch.tensor([[False]])
        self.armed = torch.tensor([[True]])

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = torch.where(self.pushes & self.armed, 2 * actions, actions)

    def restart(self) -> None:
        super().restart()
        self.pushes = torch.tensor([[True]])


class FloatClock(Pushes):
    """A clock in seconds, compared with a time that is far away."""

    def setup(self) -> None:
        self.pushes = torch.zeros(1, 1)

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = torch.where((self.pushes - 0.8).abs() < 1e-3, 2 * actions, actions)
        self.pushes += 0.02


class CountsForNothing(Pushes):
    """Sound: the count is compared, and the result is thrown away."""

    def accept(self, actions: torch.Tensor) -> None:
        self.is_due = self.pushes == 0
        self.targets[:] = actions
        self.pushes[:] = self.pushes - 1


class Scratch(Pushes):
    """Sound: the columns that are read are always written before, and the others are never read."""

    def setup(self) -> None:
        self.pushes = torch.zeros(1, 4, dtype=torch.long)

    def accept(self, actions: torch.Tensor) -> None:
        self.pushes[:, 2:] += 1
        self.pushes[:, :2] = (actions > 0).long()
        self.targets[:] = torch.where(self.pushes[:, :2] == 1, 2 * actions, actions)


WRONG = [
    (LeggedGym, Pushes, FindingKind.MISSING_MEMORY),
    (Gymnasium, Pushes, FindingKind.MISSING_MEMORY),
    (Managed, PushesAtSeven, FindingKind.MISSING_MEMORY),
    (Gymnasium, Period, FindingKind.MISSING_MEMORY),
    (LeggedGym, FallenFlag, FindingKind.UNREGISTERED_INPUT),
    (Hooked, FloatClock, FindingKind.MISSING_MEMORY),
]
SOUND = [(LeggedGym, CountsForNothing), (Gymnasium, Scratch), (Hooked, Scratch)]


@pytest.mark.matrix(3)
@pytest.mark.parametrize(("kind", "body", "finding"), WRONG, ids=name_of)
def test_the_check_names_the_tensor(kind, body, finding):
    assert_found(build(kind, body), make_actor(4), finding, f"{BUILDS[kind]}.pushes")


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body", "finding"), WRONG, ids=name_of)
def test_a_strict_export_refuses_it_and_a_file_of_another_differs(kind, body, finding, tmp_path: Path, capsys):
    assert_refused(build(kind, body), make_actor(4), tmp_path, f"{BUILDS[kind]}.pushes")
    assert not evaluates(build(kind, body), make_actor(4), tmp_path)
    assert f"{BUILDS[kind]}.pushes is frozen in the file" in capsys.readouterr().out


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), SOUND, ids=name_of)
def test_what_reaches_no_result_is_fine(kind, body, tmp_path: Path):
    assert_sound(build(kind, body), make_actor(4), tmp_path)


class Product(TestEnvironment):
    """Two forgotten sensors, both zero at the export, of which only the product is observed."""

    num_observations = 2

    def __init__(self, moves: bool = True):
        super().__init__()
        self._moves = moves
        self.state = torch.zeros(1, 2)
        self.slope = torch.zeros(1, 2)
        self.heights = torch.zeros(1, 2)
        self.context_manager().add_component(Input("state", lambda: self.state))
        self.context_manager().add_component(Output("targets", lambda: self.targets))

    def observe(self) -> torch.Tensor:
        return self.state + self.slope * self.heights

    def move(self) -> None:
        self.state += self.noise(self.state)
        self.heights += self.noise(self.heights)
        if self._moves:
            self.slope += self.noise(self.slope)


def test_a_factor_is_named_whose_other_factor_was_zero_as_well():
    found = check(Product(), make_actor(2)).errors
    assert {item.tensor for item in found} == {"env.slope", "env.heights"}


def test_a_factor_of_a_constant_zero_is_fine():
    assert check(Product(moves=False), make_actor(2)).ok
