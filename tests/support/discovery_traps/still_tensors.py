"""Inputs that stand still for a long time, or move so little that they seem to."""

from typing import Any

import torch

from tests.support.discovery_traps.base import ResettableRobot, TrapRobot, draw, draw_flag, robot
from tests.support.discovery_traps.claims import holds_for, stands_still
from tests.support.discovery_traps.trap import Trap


class CommandForLong(TrapRobot):
    """The command is resampled every 150 steps; resets do not touch it."""

    def setup(self) -> None:
        self.command = torch.tensor([[0.5, 0.0]])

    def more(self) -> torch.Tensor:
        return self.command

    def end_step(self) -> None:
        if self.step_number % 150 == 149:
            self.command[:] = draw(self.random, 1, 2)


def scatter_command(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.command.copy_(draw(random, 1, 2))


class CommandOfACurriculum(ResettableRobot):
    """Commands are resampled every 20 steps, but their range is zero until the fourth episode."""

    def setup(self) -> None:
        self.command = torch.zeros(1, 2)
        self.range = 0.0
        self.episodes = 0

    def more(self) -> torch.Tensor:
        return self.command

    def end_step(self) -> None:
        if self.step_number % 20 == 19:
            self.command = self.range * draw(self.random, 1, 2)

    def restart(self) -> None:
        super().restart()
        self.episodes += 1
        self.range = max(0.0, min(1.0, 0.25 * (self.episodes - 4)))


def scatter_curriculum(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.command = draw(random, 1, 2)


class ModeSwitch(TrapRobot):
    """An operator switches from standing to walking after 120 steps, and back after 260."""

    width = 5

    def setup(self) -> None:
        self.mode = torch.zeros(1, dtype=torch.int64)

    def more(self) -> torch.Tensor:
        return torch.nn.functional.one_hot(self.mode, 3).float()

    def end_step(self) -> None:
        self.mode.fill_(1 if 120 <= self.step_number < 260 else 0)


def scatter_mode(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.mode.copy_(torch.randint(3, (1,), generator=random))


class RareContact(TrapRobot):
    """The bumper touches something for three steps out of 130."""

    def setup(self) -> None:
        self.bumper = torch.zeros(1, 2, dtype=torch.bool)

    def more(self) -> torch.Tensor:
        return self.bumper.float()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = torch.where(self.bumper.any(-1, keepdim=True), -0.1, 0.5 * actions)

    def end_step(self) -> None:
        self.bumper = torch.tensor([[self.step_number % 130 > 126, self.step_number % 260 > 257]])


def scatter_bumper(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.bumper = draw_flag(random, 1, 2)


class LockedJoint(TrapRobot):
    """The simulator keeps the third of four joints locked for 160 steps; the others move."""

    width = 6

    def setup(self) -> None:
        self.qpos = torch.zeros(1, 4)

    def more(self) -> torch.Tensor:
        return self.qpos

    def simulate(self) -> None:
        super().simulate()
        step = self.noise(1, 4)
        if self.step_number < 160:
            step[:, 2] = 0.0
        self.qpos.mul_(0.95).add_(step)


def scatter_qpos(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.qpos.copy_(draw(random, 1, 4))


class SlowBattery(ResettableRobot):
    """The voltage of the battery falls by a millionth per tick; a reset does not charge it."""

    width = 3

    def setup(self) -> None:
        self.voltage = torch.ones(1, 1)

    def more(self) -> torch.Tensor:
        return self.voltage

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = 0.5 * actions / self.voltage

    def simulate(self) -> None:
        super().simulate()
        self.voltage.sub_(1e-6)


def scatter_battery(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.voltage.copy_(draw(random, 1, 1, low=0.8, high=1.2))


class HeightMap(TrapRobot):
    """A map of the ground with 2000 cells, measured anew every 60 steps."""

    width = 22

    def setup(self) -> None:
        self.height_map = torch.zeros(1, 40, 50)

    def more(self) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(self.height_map, 10).flatten(1)

    def end_step(self) -> None:
        if self.step_number % 60 == 59:
            self.height_map = draw(self.random, 1, 40, 50)


def scatter_map(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.height_map = draw(random, 1, 40, 50)


TRAPS = (
    Trap(
        name="command resampled every 150 steps",
        why="Who watches fewer steps takes the command for a constant.",
        make=robot(CommandForLong),
        scatter=scatter_command,
        inputs=frozenset({"env.pos", "env.command"}),
        is_set=stands_still("env.command", 149),
    ),
    Trap(
        name="command that a curriculum keeps at zero",
        why="It is resampled often, but to the same zero, over three resets. Zero also hides what is multiplied by it.",
        make=robot(CommandOfACurriculum),
        scatter=scatter_curriculum,
        inputs=frozenset({"env.pos", "env.command"}),
        is_set=stands_still("env.command", 140),
    ),
    Trap(
        name="mode that is switched after 120 steps",
        why="An integer that stands still across resets looks like a setting.",
        make=robot(ModeSwitch),
        scatter=scatter_mode,
        inputs=frozenset({"env.pos", "env.mode"}),
        is_set=stands_still("env.mode", 120),
    ),
    Trap(
        name="contact that is rare and short",
        why="It is False whenever nobody looks, and returns to False before anybody compares.",
        make=robot(RareContact),
        scatter=scatter_bumper,
        inputs=frozenset({"env.pos", "env.bumper"}),
        is_set=stands_still("env.bumper", 120),
    ),
    Trap(
        name="element of a state that stands still",
        why="Only the elements that moved would become inputs; the locked joint would be kept in the file.",
        make=robot(LockedJoint),
        scatter=scatter_qpos,
        inputs=frozenset({"env.pos", "env.qpos"}),
        naive={"env.qpos": "left out", "env.qpos[:, 0:2]": "input", "env.qpos[:, 3:4]": "input"},
        is_set=stands_still("env.qpos[:, 2]", 159),
    ),
    Trap(
        name="battery that loses a millionth per tick",
        why="A comparison with a tolerance sees no change.",
        make=robot(SlowBattery),
        scatter=scatter_battery,
        inputs=frozenset({"env.pos", "env.voltage"}),
        is_set=holds_for("(env.voltage - 1.0).abs() < 2e-4", 90),
    ),
    Trap(
        name="height map measured every 60 steps",
        why="Large, and still for longer than an episode. Each cell matters a little.",
        make=robot(HeightMap),
        scatter=scatter_map,
        inputs=frozenset({"env.pos", "env.height_map"}),
        is_set=stands_still("env.height_map", 59),
    ),
)
