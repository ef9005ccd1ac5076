"""Integers: counters, bits, and indices into tables."""

from typing import Any

import torch

from exploy.environment.exportable_environment import ExportableEnvironment
from tests.support.discovery_traps.base import ResettableRobot, TrapRobot, draw, draw_index, robot, small_actor
from tests.support.discovery_traps.claims import stands_still
from tests.support.discovery_traps.trap import Trap


def scatter_pos(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))


def table(rows: int, seed: int = 2) -> torch.Tensor:
    return draw(torch.Generator().manual_seed(seed), rows, 2)


class GaitTable(TrapRobot):
    """The pipeline counts the phase of the gait, and looks up what belongs to it."""

    def setup(self) -> None:
        self.table = table(8)
        self.phase = torch.zeros(1, dtype=torch.int64)

    def more(self) -> torch.Tensor:
        return self.table[self.phase]

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.phase = (self.phase + 1) % 8

    def restart(self) -> None:
        super().restart()
        self.phase = torch.zeros(1, dtype=torch.int64)


class EpisodeClock(TrapRobot):
    """Its step() counts the steps of the episode; the pipeline makes a phase of it."""

    def setup(self) -> None:
        self.episode_length_buf = torch.zeros(1, dtype=torch.int64)

    def more(self) -> torch.Tensor:
        phase = self.episode_length_buf[:, None].float() * 0.2
        return torch.cat([phase.sin(), phase.cos()], -1)

    def end_step(self) -> None:
        self.episode_length_buf += 1

    def restart(self) -> None:
        super().restart()
        self.episode_length_buf.zero_()


def scatter_clock(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.episode_length_buf.copy_(draw_index(random, 37, 1))


class StatusBits(ResettableRobot):
    """One bit of the status says that the robot is carried; it is set after 125 steps. Others flicker."""

    width = 3

    def setup(self) -> None:
        self.status = torch.zeros(1, 1, dtype=torch.int32)

    def more(self) -> torch.Tensor:
        return ((self.status & 4) != 0).float()

    def end_step(self) -> None:
        flicker = int(torch.randint(4, (), generator=self.random))
        self.status.fill_(flicker + (4 if self.step_number % 150 > 125 else 0))


def scatter_status(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.status.copy_(draw_index(random, 8, 1, 1))


class MotionByIndex(TrapRobot):
    """The simulator plays a motion: it advances an index, and the pipeline reads the frame."""

    def setup(self) -> None:
        self.motion = table(50)
        self.frame = torch.zeros(1, dtype=torch.int64)

    def more(self) -> torch.Tensor:
        return self.motion[self.frame]

    def end_step(self) -> None:
        self.frame = (self.frame + 1) % 50


def scatter_frame(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.frame = draw_index(random, 50, 1)


class MotionByReference(ResettableRobot):
    """The simulator plays a motion and copies its frame; only process_actions() reads the copy."""

    width = 2

    def setup(self) -> None:
        self.motion = table(50)
        self.frame = torch.zeros(1, dtype=torch.int64)
        self.reference = torch.zeros(1, 2)

    def compute_observations(self) -> torch.Tensor:
        return self.pos * 1.0

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = self.reference + 0.3 * actions

    def end_step(self) -> None:
        self.frame = (self.frame + 1) % 50
        self.reference.copy_(self.motion[self.frame])


def scatter_reference(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.frame = draw_index(random, 50, 1)
    env.reference.copy_(env.motion[env.frame])


class MotionByCommand(TrapRobot):
    """A command update advances the motion, before each computation of observations."""

    def setup(self) -> None:
        self.motion = table(30)
        self.frame = torch.zeros(1, dtype=torch.int64)

    def advance(self) -> None:
        self.frame.add_(1).remainder_(30)

    def more(self) -> torch.Tensor:
        return self.motion[self.frame]

    def restart(self) -> None:
        super().restart()
        self.frame.zero_()


def make_motion_by_command() -> tuple[ExportableEnvironment, torch.nn.Module]:
    env = MotionByCommand()
    env.register_command_update(env.advance)
    return env, small_actor(env.width)


TRAPS = (
    Trap(
        name="integer phase that the pipeline counts",
        why="A table lookup with a frozen index gives the same row for ever; a random index is out of range.",
        make=robot(GaitTable),
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        memories=frozenset({"env.phase"}),
        never_inputs=frozenset({"env.phase", "env.table"}),
    ),
    Trap(
        name="integer clock that step() counts",
        why="It moves like a memory, but no stage writes it: as a memory it would stand still.",
        make=robot(EpisodeClock),
        scatter=scatter_clock,
        inputs=frozenset({"env.pos", "env.episode_length_buf"}),
        naive={"env.episode_length_buf": "memory"},
    ),
    Trap(
        name="one bit of a status word",
        why="The word changes all the time without influence; the bit that matters stands still.",
        make=robot(StatusBits),
        scatter=scatter_status,
        inputs=frozenset({"env.pos", "env.status"}),
        is_set=stands_still("env.status & 4", 120),
    ),
    Trap(
        name="motion read by an index",
        why="The index is the input. The table is a constant that is larger, and random indices are out of range.",
        make=robot(MotionByIndex),
        scatter=scatter_frame,
        inputs=frozenset({"env.pos", "env.frame"}),
        never_inputs=frozenset({"env.motion"}),
    ),
    Trap(
        name="motion read by a copied frame",
        why="The index moves, too, but only step() reads it. No observation depends on the copied frame.",
        make=robot(MotionByReference),
        scatter=scatter_reference,
        inputs=frozenset({"env.pos", "env.reference"}),
        never_inputs=frozenset({"env.motion"}),
        naive={"env.reference": "left out", "env.frame": "input"},
    ),
    Trap(
        name="motion advanced by a command update",
        why="The file contains the command update: the index is a memory; as an input it is advanced once too often.",
        make=make_motion_by_command,
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        memories=frozenset({"env.frame"}),
        never_inputs=frozenset({"env.frame", "env.motion"}),
        naive={"env.frame": "input"},
    ),
)
