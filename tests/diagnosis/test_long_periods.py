"""Python state with a longer period than the steps of a check is found by a long run of the pipeline alone."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from exploy.diagnosis.finding import FindingKind
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


class Ticks(Body):
    """Every thirtieth observation is halved."""

    def setup(self) -> None:
        self.tick = 0

    def observe(self) -> torch.Tensor:
        self.tick += 1
        observations = super().observe()
        return self.rare(observations) if self.tick % 30 == 0 else observations

    def rare(self, observations: torch.Tensor) -> torch.Tensor:
        return 0.5 * observations


class StepTicks(Ticks):
    """step() counts, and the pipeline reads the count."""

    reset_every = 10**6

    def setup(self) -> None:
        self.tick = 5

    def observe(self) -> torch.Tensor:
        observations = Body.observe(self)
        return self.rare(observations) if self.tick % 40 == 0 else observations

    def end_step(self) -> None:
        self.tick += 1


class ChoosesGains(Ticks):
    """The same operators at each step, on another tensor from the thirtieth step on."""

    def setup(self) -> None:
        super().setup()
        self.gains = [torch.full((1, 2), 1.0), torch.full((1, 2), 2.0)]

    def accept(self, actions: torch.Tensor) -> None:
        self.tick += 1
        self.targets[:] = actions * self.gains[self.tick // 35 % 2]

    def observe(self) -> torch.Tensor:
        return Body.observe(self)


class GrowingFactor(Ticks):
    """The same operators at each step, with another number every fortieth step."""

    def observe(self) -> torch.Tensor:
        self.tick += 1
        return Body.observe(self) * (1.0 + 0.1 * (self.tick // 40))


class Clock:
    __slots__ = ("ticks",)

    def __init__(self) -> None:
        self.ticks = 0


class SlottedClock(Ticks):
    """Counts in an object with slots; its period is longer than an episode."""

    def setup(self) -> None:
        self.tick = Clock()  # type: ignore[assignment]

    def observe(self) -> torch.Tensor:
        self.tick.ticks += 1  # type: ignore[attr-defined]
        observations = Body.observe(self)
        return self.rare(observations) if self.tick.ticks % 95 == 0 else observations  # type: ignore[attr-defined]


class NumpyClock(Ticks):
    def setup(self) -> None:
        self.clock = np.zeros(1)

    def observe(self) -> torch.Tensor:
        self.clock += 0.02
        observations = Body.observe(self)
        return self.rare(observations) if self.clock[0] > 0.8 else observations


class Iterates(Ticks):
    """Its state is in an iterator, which nobody can look at or put back."""

    def setup(self) -> None:
        self.numbers = itertools.count()

    def observe(self) -> torch.Tensor:
        observations = Body.observe(self)
        return self.rare(observations) if next(self.numbers) % 90 == 89 else observations


class NoisyLater(Ticks):
    """Noise that begins when a curriculum has come far enough."""

    def rare(self, observations: torch.Tensor) -> torch.Tensor:
        return observations + 0.1 * torch.randn(1, 4)


class Logs(Ticks):
    """Sound: what happens at each thirtieth step reaches no result."""

    def rare(self, observations: torch.Tensor) -> torch.Tensor:
        self.mean = (observations * 2.0).mean()
        return observations


class StepLogs(StepTicks):
    """Sound: the same, counted by step()."""

    def rare(self, observations: torch.Tensor) -> torch.Tensor:
        self.mean = (observations * 2.0).mean()
        return observations


class RefreshesAConstant(ChoosesGains):
    """Sound: another tensor with the same values."""

    def setup(self) -> None:
        super().setup()
        self.gains = [torch.full((1, 2), 2.0), torch.full((1, 2), 2.0)]


class EpisodeCount(StepTicks):
    """Sound: the count never comes that far, because each reset sets it back."""

    reset_every = 30

    def setup(self) -> None:
        self.tick = 0

    def observe(self) -> torch.Tensor:
        observations = Body.observe(self)
        return self.rare(observations) if self.tick > 100 else observations

    def restart(self) -> None:
        super().restart()
        self.tick = 0


NAMED = [
    (Gymnasium, Ticks, "tick"),
    (LeggedGym, Ticks, "tick"),
    (Managed, Ticks, "tick"),
    (Hooked, StepTicks, "tick"),
    (LeggedGym, StepTicks, "tick"),
    (LeggedGym, ChoosesGains, "tick"),
    (Gymnasium, GrowingFactor, "tick"),
    (Managed, NumpyClock, "clock"),
    (LeggedGym, SlottedClock, "tick.ticks"),
]
BY_LINE = [(Gymnasium, Iterates, "rare)"), (LeggedGym, Iterates, "rare)"), (Managed, Iterates, "rare)")]
SOUND = [(LeggedGym, Logs), (Gymnasium, Logs), (Hooked, StepLogs), (Gymnasium, RefreshesAConstant)]
SOUND += [(Hooked, EpisodeCount), (LeggedGym, EpisodeCount)]


@pytest.mark.matrix(4)
@pytest.mark.parametrize(("kind", "body", "attribute"), NAMED, ids=name_of)
def test_the_check_names_the_number(kind, body, attribute):
    env = build(kind, body, warm=2)
    assert_found(env, make_actor(4), FindingKind.PYTHON_STATE, f"{BUILDS[kind]}.{attribute}")


@pytest.mark.parametrize(("kind", "body", "line"), BY_LINE, ids=name_of)
def test_the_check_names_the_line_where_it_cannot_name_the_state(kind, body, line):
    finding = assert_found(build(kind, body), make_actor(4), FindingKind.UNEXPLAINED, line)
    assert "without the simulator, code runs that the captured program does not contain" in finding.what


def test_noise_that_comes_later_is_named_with_its_line():
    finding = assert_found(build(LeggedGym, NoisyLater), make_actor(4), FindingKind.RANDOM, "rare)")
    assert "aten.randn" in finding.what


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body", "named"), [*NAMED, *BY_LINE], ids=name_of)
def test_a_strict_export_refuses_it_and_a_file_of_another_differs(kind, body, named, tmp_path: Path):
    tensor = named if named.endswith(")") else f"{BUILDS[kind]}.{named}"
    assert_refused(build(kind, body, warm=2), make_actor(4), tmp_path, tensor)
    assert not evaluates(build(kind, body, warm=2), make_actor(4), tmp_path, steps=100)


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body"), SOUND, ids=name_of)
def test_what_reaches_no_result_is_fine(kind, body, tmp_path: Path):
    assert_sound(build(kind, body, warm=2), make_actor(4), tmp_path)


def test_a_pipeline_that_fails_without_the_simulator_is_mentioned():
    class Ends(NumpyClock):
        """Cannot be run often without a reset."""

        def observe(self) -> torch.Tensor:
            self.clock += 1
            if self.clock[0] > 60:
                raise RuntimeError("the episode is over")
            return Body.observe(self)

        def restart(self) -> None:
            super().restart()
            self.clock[:] = 0

    diagnosis = check(build(LeggedGym, Ends), make_actor(4))
    (finding,) = [item for item in diagnosis.findings if item.kind is FindingKind.NOT_OBSERVED]
    assert diagnosis.ok and "RuntimeError in policy step" in finding.what and "longer periods" in finding.what
