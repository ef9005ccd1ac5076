"""Values that Python reads are refused if they depend on an Input, and otherwise frozen, listed, watched and named."""

from pathlib import Path

import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import DataDependentError
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
from tests.support.environments import export, make_actor

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")


class Branches(Body):
    def observe(self) -> torch.Tensor:
        return super().observe() * (2.0 if self.vel.norm() > 5.0 else 1.0)


class Formats(Body):
    def observe(self) -> torch.Tensor:
        gains = {"0": 1.0, "1": 2.0}
        return super().observe() * gains[f"{(self.vel.norm() > 5.0).long()}"]


class CatchesTheRefusal(Body):
    def observe(self) -> torch.Tensor:
        try:
            scale = float(self.vel.norm())
        except Exception:
            scale = 1.0
        return super().observe() * scale


class ListOfValues(Body):
    """Sound: a list of 0-d tensors is followed."""

    def observe(self) -> torch.Tensor:
        return torch.tensor([[self.pos[0, 0], self.pos[0, 1], self.vel[0, 0], self.vel[0, 1] > 5.0]])


class Curriculum(Body):
    """A level that Python reads, and that a reset raises."""

    def setup(self) -> None:
        self.level = torch.ones(1)

    def observe(self) -> torch.Tensor:
        return super().observe() * self.level.item()

    def restart(self) -> None:
        super().restart()
        self.level += 1


class Mode(Curriculum):
    def observe(self) -> torch.Tensor:
        observations = super(Curriculum, self).observe()
        return 2 * observations if self.level[0] % 2 > 0.5 else observations


class Listed(Curriculum):
    def observe(self) -> torch.Tensor:
        return super(Curriculum, self).observe() * torch.tensor([self.level[0], 1.0, 1.0, 1.0])


class Constant(Curriculum):
    """Sound: nothing changes the level."""

    def restart(self) -> None:
        Body.restart(self)


LEAVES_TORCH = [(LeggedGym, Branches), (Gymnasium, Formats), (Managed, CatchesTheRefusal)]
CHANGES = [(LeggedGym, Curriculum), (Gymnasium, Mode), (Managed, Listed)]
SOUND = [(Hooked, ListOfValues), (LeggedGym, Constant), (Gymnasium, ListOfValues)]


@pytest.mark.parametrize(("kind", "body"), LEAVES_TORCH, ids=name_of)
def test_a_value_that_depends_on_an_input_is_refused_with_its_line(kind, body, tmp_path: Path):
    (finding,) = check(build(kind, body), make_actor(4)).errors
    assert finding.kind is FindingKind.CAPTURE_FAILED
    assert f"{Path(__file__).name}:" in finding.what + finding.where
    with pytest.raises(DataDependentError, match=Path(__file__).name):
        exploy.export(build(kind, body), make_actor(4), tmp_path / "strict.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), CHANGES, ids=name_of)
def test_a_constant_that_python_reads_is_listed_and_named_when_it_changes(kind, body, tmp_path: Path, capsys):
    path = f"{BUILDS[kind]}.level"
    assert_found(build(kind, body), make_actor(4), FindingKind.UNREGISTERED_INPUT, path)
    assert_refused(build(kind, body), make_actor(4), tmp_path, path)
    session = export(build(kind, body), make_actor(4), tmp_path)
    assert session.contract is not None and path in [item.name for item in session.contract.frozen]
    assert not evaluates(build(kind, body), make_actor(4), tmp_path)
    assert f"{path} is frozen in the file" in capsys.readouterr().out


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), SOUND, ids=name_of)
def test_what_is_followed_or_never_changes_is_fine(kind, body, tmp_path: Path):
    assert_sound(build(kind, body), make_actor(4), tmp_path)
