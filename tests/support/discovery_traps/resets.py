"""Tensors that only resets change: some are told to the robot, some are randomised constants."""

from typing import Any

import torch

from tests.support.discovery_traps.base import ResettableRobot, TrapRobot, draw, robot
from tests.support.discovery_traps.claims import changes_only_by_resets
from tests.support.discovery_traps.trap import Trap


def scatter_pos(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))


class RandomGains(TrapRobot):
    """The stiffness of the motors is another one in each episode."""

    width = 2

    def setup(self) -> None:
        self.kp = torch.ones(1, 2)

    def compute_observations(self) -> torch.Tensor:
        return self.pos * 1.0

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = self.kp * (actions - self.pos)

    def restart(self) -> None:
        super().restart()
        self.kp = draw(self.random, 1, 2, low=0.8, high=1.2)


class CommandOfAnEpisode(ResettableRobot):
    """A velocity command is drawn for the whole episode, in place."""

    def setup(self) -> None:
        self.command = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return self.command

    def restart(self) -> None:
        super().restart()
        self.command[:] = draw(self.random, 1, 2)


def scatter_command(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.command.copy_(draw(random, 1, 2))


class ParametersOfAnEpisode(TrapRobot):
    """One tensor holds what an episode draws: a motor strength and a command."""

    def setup(self) -> None:
        self.parameters = torch.ones(1, 3)

    def more(self) -> torch.Tensor:
        return self.parameters[:, 1:]

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = self.parameters[:, :1] * actions

    def restart(self) -> None:
        super().restart()
        self.parameters.copy_(draw(self.random, 1, 3, low=0.5, high=1.0))


def scatter_parameters(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.parameters[:, 1:] = draw(random, 1, 2)


class EncoderBias(ResettableRobot):
    """The encoders have an offset, which is drawn at each reset to make the policy robust."""

    width = 2

    def setup(self) -> None:
        self.encoder_bias = torch.zeros(1, 2)

    def compute_observations(self) -> torch.Tensor:
        return self.pos + self.encoder_bias

    def restart(self) -> None:
        super().restart()
        self.encoder_bias = 0.1 * draw(self.random, 1, 2)


class RandomPhase(TrapRobot):
    """The pipeline advances the phase of the gait; each episode starts at another one."""

    def setup(self) -> None:
        self.phase = torch.zeros(1, 1)

    def more(self) -> torch.Tensor:
        return torch.cat([self.phase.sin(), self.phase.cos()], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.phase = self.phase + 0.3

    def restart(self) -> None:
        super().restart()
        self.phase = draw(self.random, 1, 1, high=3.0)


class ActuatorDelay(ResettableRobot):
    """Targets reach the motors some steps later; how many is drawn at each reset."""

    width = 2

    def setup(self) -> None:
        self.delay = torch.zeros(1, dtype=torch.int64)
        self.queue = torch.zeros(4, 2)

    def compute_observations(self) -> torch.Tensor:
        return self.pos * 1.0

    def process_actions(self, actions: torch.Tensor) -> None:
        self.queue = torch.cat([0.5 * actions, self.queue[:-1]])
        self.torque = self.queue[self.delay]

    def restart(self) -> None:
        super().restart()
        self.queue = torch.zeros(4, 2)
        self.delay = (self.delay + torch.randint(1, 4, (1,), generator=self.random)) % 4


class VelocityFromPositions(TrapRobot):
    """Observes how far it has moved since the last step; a reset stores the new position as the last one."""

    def setup(self) -> None:
        self.last_pos = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return 5.0 * (self.pos - self.last_pos)

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.last_pos[:] = self.pos

    def restart(self) -> None:
        super().restart()
        self.last_pos[:] = self.pos


class GaitOfAnEpisode(TrapRobot):
    """An integer says which gait the robot is told to use; a reset draws it."""

    width = 5

    def setup(self) -> None:
        self.gait = torch.zeros(1, dtype=torch.int64)

    def more(self) -> torch.Tensor:
        return torch.nn.functional.one_hot(self.gait, 3).float()

    def restart(self) -> None:
        super().restart()
        self.gait = (self.gait + torch.randint(1, 3, (1,), generator=self.random)) % 3


def scatter_gait(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.gait = torch.randint(3, (1,), generator=random)


class UnknownBeforeAReset(ResettableRobot):
    """The height of the feet is NaN until the first reset has computed it; then the simulator does."""

    width = 4
    starts_reset = False

    def setup(self) -> None:
        self.foot_height = torch.full((1, 2), float("nan"))

    def more(self) -> torch.Tensor:
        return self.foot_height

    def simulate(self) -> None:
        super().simulate()
        self.foot_height = 0.9 * self.foot_height + self.noise(1, 2)

    def restart(self) -> None:
        super().restart()
        self.foot_height = 0.1 + self.noise(1, 2)


def scatter_feet(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.foot_height = draw(random, 1, 2)


TRAPS = (
    Trap(
        name="gains drawn by resets",
        why="They change, so they look like inputs; but no robot can give them. Or one random gain is kept silently.",
        make=robot(RandomGains),
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"env.kp"}),
        never_inputs=frozenset({"env.kp"}),
        naive={"env.kp": "input"},
        answers={"env.kp": "constant"},
        is_set=changes_only_by_resets("env.kp"),
    ),
    Trap(
        name="command drawn by resets",
        why="It behaves exactly like a random gain. As a constant, the robot would follow one command for ever.",
        make=robot(CommandOfAnEpisode),
        scatter=scatter_command,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"env.command"}),
        naive={"env.command": "left out"},
        answers={"env.command": "input"},
        is_set=changes_only_by_resets("env.command"),
    ),
    Trap(
        name="gain and command drawn by resets, in one tensor",
        why="One answer for the whole tensor is wrong: a column is a constant, two columns are told to the robot.",
        make=robot(ParametersOfAnEpisode),
        scatter=scatter_parameters,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"env.parameters"}),
        never_inputs=frozenset({"env.parameters[:, 0:1]"}),
        naive={"env.parameters": "left out"},
        answers={"env.parameters[:, 1:3]": "input", "env.parameters[:, 0:1]": "constant"},
        is_set=changes_only_by_resets("env.parameters"),
    ),
    Trap(
        name="bias of the encoders drawn by resets",
        why="The robot measures position and bias together. The bias is neither an input nor to be kept as it is.",
        make=robot(EncoderBias),
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"env.encoder_bias"}),
        never_inputs=frozenset({"env.encoder_bias"}),
        naive={"env.encoder_bias": "input"},
        answers={"env.encoder_bias": "constant"},
        is_set=changes_only_by_resets("env.encoder_bias"),
    ),
    Trap(
        name="phase of a gait that starts anywhere",
        why="The pipeline advances it, so it is a memory; but the start value that the file stores is an accident.",
        make=robot(RandomPhase),
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        memories=frozenset({"env.phase"}),
        to_be_said=frozenset({"env.phase"}),
        never_inputs=frozenset({"env.phase"}),
        naive={"env.phase": "left out"},
        answers={"env.phase": "memory"},
    ),
    Trap(
        name="delay of the actuators drawn by resets",
        why="An integer index into the queue of targets. The robot has its own delay, and cannot give this number.",
        make=robot(ActuatorDelay),
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        memories=frozenset({"env.queue"}),
        to_be_said=frozenset({"env.delay"}),
        never_inputs=frozenset({"env.delay"}),
        naive={"env.delay": "input"},
        answers={"env.delay": "constant"},
        is_set=changes_only_by_resets("env.delay"),
    ),
    Trap(
        name="last position, set to the first position by a reset",
        why="A memory without a constant start: after a reset of the file, the first velocity would be huge.",
        make=robot(VelocityFromPositions),
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        memories=frozenset({"env.last_pos"}),
        to_be_said=frozenset({"env.last_pos"}),
        never_inputs=frozenset({"env.last_pos"}),
        naive={"env.last_pos": "left out"},
        answers={"env.last_pos": "memory"},
    ),
    Trap(
        name="number of a gait drawn by resets",
        why="An integer that stands still for an episode looks like a setting, but the robot is told the gait to use.",
        make=robot(GaitOfAnEpisode),
        scatter=scatter_gait,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"env.gait"}),
        naive={"env.gait": "left out"},
        answers={"env.gait": "input"},
        is_set=changes_only_by_resets("env.gait"),
    ),
    Trap(
        name="NaN until the first reset",
        why="Before a reset, everything computed from it is NaN, so that no change of anything makes a difference.",
        make=robot(UnknownBeforeAReset),
        scatter=scatter_feet,
        inputs=frozenset({"env.pos", "env.foot_height"}),
    ),
)
