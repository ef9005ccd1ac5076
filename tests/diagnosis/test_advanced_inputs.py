"""An Input that the pipeline itself advances, such as a phase, is a Memory: a robot could not give it."""

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
from tests.support.checking import check
from tests.support.environments import make_actor
from tests.support.pasting import paste

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")


class Phase(Body):
    """The observations advance a phase."""

    def setup(self) -> None:
        self.phase = torch.zeros(1, 2)

    def components(self) -> list[Any]:
        return [*super().components(), Input("phase", lambda: self.phase)]

    def observe(self) -> torch.Tensor:
        self.phase = (self.phase + 0.02) % 1.0
        return torch.cat([self.pos, torch.sin(6.28 * self.phase)], -1)

    def restart(self) -> None:
        super().restart()
        self.phase = torch.zeros(1, 2)


class LastAction(Phase):
    """The action code filters actions in place."""

    def observe(self) -> torch.Tensor:
        return torch.cat([self.pos, self.phase], -1)

    def accept(self, actions: torch.Tensor) -> None:
        self.phase.lerp_(actions, 0.2)
        self.targets[:] = self.phase


class SmoothedSensor(Phase):
    """A filter over what the simulator moves."""

    def observe(self) -> torch.Tensor:
        self.phase += 0.1 * (self.vel - self.phase)
        return torch.cat([self.pos, self.phase], -1)


class PhaseAsMemory(Phase):
    """Sound."""

    def components(self) -> list[Any]:
        return [*Body.components(self), Memory("phase", lambda: self.phase)]


class PhaseOfTheSimulator(Phase):
    """Sound: the simulator advances the phase."""

    def observe(self) -> torch.Tensor:
        return torch.cat([self.pos, torch.sin(6.28 * self.phase)], -1)

    def move(self) -> None:
        super().move()
        self.phase = (self.phase + 0.02) % 1.0


class ShiftedInPlace(Phase):
    """Sound: the pipeline changes the tensor in place, and the simulator writes it anew at each step."""

    def observe(self) -> torch.Tensor:
        self.phase -= 0.5
        return torch.cat([self.pos, self.phase], -1)

    def move(self) -> None:
        super().move()
        self.phase[:] = 2.0 * self.vel


WRONG = [(LeggedGym, Phase), (Gymnasium, Phase), (Hooked, LastAction), (Gymnasium, LastAction)]
WRONG += [(Managed, SmoothedSensor), (LeggedGym, SmoothedSensor)]
SOUND = [(LeggedGym, PhaseAsMemory), (Gymnasium, PhaseOfTheSimulator), (Managed, ShiftedInPlace)]


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), WRONG, ids=name_of)
def test_the_check_names_the_input_and_the_suggested_memory_mends_it(kind, body):
    env, actor = build(kind, body), make_actor(4)
    finding = assert_found(env, actor, FindingKind.MISSING_MEMORY, "phase")
    assert finding.suggestion.startswith('Memory(name="phase"')
    paste(check(env, actor), env, actor)
    assert check(env, actor).ok


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), WRONG, ids=name_of)
def test_a_strict_export_refuses_it_and_an_evaluation_that_gives_it_agrees(kind, body, tmp_path: Path):
    """An evaluation gives the file each Input of the environment, this one too. Only a robot has nobody to give it."""
    assert_refused(build(kind, body), make_actor(4), tmp_path, "phase")
    assert evaluates(build(kind, body), make_actor(4), tmp_path)


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), SOUND, ids=name_of)
def test_a_memory_and_what_the_simulator_moves_are_fine(kind, body, tmp_path: Path):
    assert_sound(build(kind, body), make_actor(4), tmp_path)
