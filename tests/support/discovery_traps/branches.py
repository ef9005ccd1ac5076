"""Inputs that have no influence until a condition holds, which is rare."""

from typing import Any

import torch

from tests.support.discovery_traps.base import ResettableRobot, TrapRobot, draw, draw_flag, draw_index, robot
from tests.support.discovery_traps.claims import holds_for
from tests.support.discovery_traps.trap import Trap


class Recovery(TrapRobot):
    """If it tilts too much, it follows the direction of a recovery command; the tilt is small but for a push."""

    def setup(self) -> None:
        self.tilt = torch.zeros(1, 1)
        self.recovery = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return torch.where(self.tilt > 1.0, self.recovery, 0.1 * self.pos)

    def simulate(self) -> None:
        super().simulate()
        self.tilt.mul_(0.5).add_(self.noise(1, 1))
        self.recovery.mul_(0.9).add_(self.noise(1, 2))

    def end_step(self) -> None:
        if self.step_number % 140 == 139:
            self.tilt += 2.0


def scatter_recovery(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.tilt.copy_(draw(random, 1, 1, low=0.0, high=3.0))
    env.recovery.copy_(draw(random, 1, 2))


class GatedScan(ResettableRobot):
    """The scan is multiplied by a gate that opens after 200 steps."""

    def setup(self) -> None:
        self.scan = torch.zeros(1, 2)
        self.gate = torch.zeros(1, 1)

    def more(self) -> torch.Tensor:
        return self.scan * self.gate

    def simulate(self) -> None:
        super().simulate()
        self.scan = 0.9 * self.scan + self.noise(1, 2)

    def end_step(self) -> None:
        self.gate.fill_(min(1.0, max(0.0, (self.step_number - 200) / 50)))


def scatter_scan(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.scan = draw(random, 1, 2)
    env.gate.copy_(draw(random, 1, 1, low=0.0, high=1.0))


class RangeFinder(TrapRobot):
    """Sees no wall within its range of one metre for 130 steps; the distance itself changes at each tick."""

    width = 3

    def setup(self) -> None:
        self.distance = torch.full((1, 1), 3.0)

    def more(self) -> torch.Tensor:
        return self.distance.clamp(0.0, 1.0)

    def simulate(self) -> None:
        super().simulate()
        noise = 0.1 * self.noise(1, 1).clamp(-1.0, 1.0)
        self.distance = (noise + 3.0 - 0.02 * (self.step_number % 180)).clamp(min=0.1)

    def end_step(self) -> None:
        if self.step_number < 130:
            self.distance.clamp_(min=1.1)


def scatter_distance(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.distance = draw(random, 1, 1, low=0.0, high=2.0)


class TwoReferences(TrapRobot):
    """A switch chooses between two references; it stands on the first for 110 steps."""

    def setup(self) -> None:
        self.references = {"walk": torch.zeros(1, 2), "climb": torch.zeros(1, 2)}
        self.choice = torch.zeros(1, 1, dtype=torch.int64)

    def more(self) -> torch.Tensor:
        both = torch.stack([self.references["walk"], self.references["climb"]], -1)
        return both.gather(-1, self.choice[..., None].expand(1, 2, 1)).squeeze(-1)

    def simulate(self) -> None:
        super().simulate()
        for reference in self.references.values():
            reference.mul_(0.9).add_(self.noise(1, 2))

    def end_step(self) -> None:
        self.choice.fill_(int(self.step_number % 160 > 110))


def scatter_references(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    for reference in env.references.values():
        reference.copy_(draw(random, 1, 2))
    env.choice.copy_(draw_index(random, 2, 1, 1))


class BallTracker(ResettableRobot):
    """The position of the ball is NaN while it is not seen; the robot then uses where it was seen last."""

    def setup(self) -> None:
        self.ball = torch.full((1, 2), float("nan"))
        self.last_seen = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        self.last_seen = torch.where(self.ball.isnan(), self.last_seen, self.ball)
        return self.last_seen

    def end_step(self) -> None:
        seen = self.step_number % 150 in (145, 146)
        self.ball = draw(self.random, 1, 2) if seen else torch.full((1, 2), float("nan"))

    def restart(self) -> None:
        super().restart()
        self.last_seen = torch.zeros(1, 2)


def scatter_ball(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.ball = torch.where(draw_flag(random, 1, 1), draw(random, 1, 2), float("nan"))


TRAPS = (
    Trap(
        name="recovery command behind a rare condition",
        why="Changing it makes no difference in any state that was seen, because torch.where takes the other branch.",
        make=robot(Recovery),
        scatter=scatter_recovery,
        inputs=frozenset({"env.pos", "env.tilt", "env.recovery"}),
        is_set=holds_for("env.tilt < 1.0", 139),
    ),
    Trap(
        name="scan multiplied by a closed gate",
        why="The gate stands at zero for 200 steps, and zero times the scan is zero: neither seems to matter.",
        make=robot(GatedScan),
        scatter=scatter_scan,
        inputs=frozenset({"env.pos", "env.scan", "env.gate"}),
        is_set=holds_for("env.gate == 0.0", 200),
    ),
    Trap(
        name="distance beyond the range",
        why="It changes at each tick, but is clamped to the same number, so it seems to have no influence.",
        make=robot(RangeFinder),
        scatter=scatter_distance,
        inputs=frozenset({"env.pos", "env.distance"}),
        is_set=holds_for("env.distance > 1.0", 130),
    ),
    Trap(
        name="second of two references, chosen by a switch",
        why="The integer stands still and the second reference is not chosen, so both look irrelevant.",
        make=robot(TwoReferences),
        scatter=scatter_references,
        inputs=frozenset({"env.pos", "env.references['walk']", "env.references['climb']", "env.choice"}),
        is_set=holds_for("env.choice == 0", 110),
    ),
    Trap(
        name="ball that is NaN while it is not seen",
        why="NaN is not equal to NaN, so it seems to change all the time, or never; the memory stands still as well.",
        make=robot(BallTracker),
        scatter=scatter_ball,
        inputs=frozenset({"env.pos", "env.ball"}),
        memories=frozenset({"env.last_seen"}),
        never_inputs=frozenset({"env.last_seen"}),
        is_set=holds_for("env.ball.isnan().all()", 140),
    ),
)
