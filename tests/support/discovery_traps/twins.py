"""Tensors that have the same values as another one, always or for a while."""

from types import SimpleNamespace
from typing import Any

import torch

from tests.support.discovery_traps.base import ResettableRobot, TrapRobot, draw, robot
from tests.support.discovery_traps.claims import holds_for, stay_equal
from tests.support.discovery_traps.trap import Trap


def scatter_pos(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))


class ActionHistory(TrapRobot):
    """The last action is kept twice: for the observation, and as the newest of a history."""

    width = 6

    def setup(self) -> None:
        self.last_action = torch.zeros(1, 2)
        self.action_history = torch.zeros(1, 3, 2)

    def more(self) -> torch.Tensor:
        return torch.cat([self.last_action, self.action_history[:, 2]], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = 0.5 * actions - 0.2 * self.action_history[:, 0]
        self.action_history = torch.cat([actions[:, None], self.action_history[:, :-1]], 1)
        self.last_action[:] = actions

    def restart(self) -> None:
        super().restart()
        self.last_action.zero_()
        self.action_history = torch.zeros(1, 3, 2)


class Mirror(ResettableRobot):
    """Its step() copies the state of the simulator; only the copy is read."""

    def setup(self) -> None:
        self.sim = SimpleNamespace(qpos=torch.zeros(1, 2))
        self.joint_pos = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return self.joint_pos

    def simulate(self) -> None:
        super().simulate()
        self.sim.qpos = 0.9 * self.sim.qpos + 0.1 * self.torque + self.noise(1, 2)
        self.joint_pos.copy_(self.sim.qpos)


def scatter_mirror(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.sim.qpos = draw(random, 1, 2)
    env.joint_pos.copy_(env.sim.qpos)


class MirrorAndSource(Mirror):
    """The copy is made once per policy step, for the observation; the motors read the simulator at each tick."""

    ticks = 4

    def process_actions(self, actions: torch.Tensor) -> None:
        self.target = 0.5 * actions

    def apply_actions(self) -> None:
        self.torque = self.target - 0.5 * self.sim.qpos

    def simulate(self) -> None:
        TrapRobot.simulate(self)
        self.sim.qpos = 0.9 * self.sim.qpos + 0.1 * self.torque + self.noise(1, 2)

    def end_step(self) -> None:
        self.joint_pos.copy_(self.sim.qpos)


class TwoWheels(TrapRobot):
    """Both wheels turn alike, because the simulated robot drives straight. Three tensors are called alike, too."""

    width = 8

    def setup(self) -> None:
        self.left, self.right = (SimpleNamespace(pos=torch.zeros(1, 2)) for _ in range(2))
        self.left_pos = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return torch.cat([self.left.pos, 2.0 * self.right.pos, self.left_pos], -1)

    def simulate(self) -> None:
        super().simulate()
        turned = 0.1 * self.torque + self.noise(1, 2)
        for wheel in (self.left, self.right):
            wheel.pos.mul_(0.9).add_(turned)
        self.left_pos.copy_(self.left.pos)


def scatter_wheels(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    for tensor in (env.left.pos, env.right.pos, env.left_pos):
        tensor.copy_(draw(random, 1, 2))


class PositionFromHome(TrapRobot):
    """The position relative to where the episode began; home is zero until the first reset in the run."""

    def setup(self) -> None:
        self.home = torch.zeros(1, 2)
        self.from_home = torch.zeros(1, 2)
        self.episodes = 0

    def more(self) -> torch.Tensor:
        return self.from_home

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = 0.5 * actions - 0.3 * self.pos

    def simulate(self) -> None:
        super().simulate()
        self.from_home[:] = self.pos - self.home

    def restart(self) -> None:
        super().restart()
        if self.episodes:
            self.home = self.pos.clone()
        self.episodes += 1
        self.from_home[:] = self.pos - self.home


def scatter_home(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.home = draw(random, 1, 2)
    env.from_home[:] = env.pos - env.home


class ActionAndTorque(ResettableRobot):
    """The last action is what the motors got, until a reset clears only one of them."""

    def setup(self) -> None:
        self.last_action = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return self.last_action

    def process_actions(self, actions: torch.Tensor) -> None:
        self.torque[:] = actions
        self.last_action[:] = actions

    def restart(self) -> None:
        self.pos.zero_()
        self.last_action.zero_()


class StandsAtDefault(TrapRobot):
    """Until its motors are switched on after 60 steps, the robot stands where the default position is."""

    def setup(self) -> None:
        self.default_pos = torch.tensor([[0.4, -0.3]])
        self.joint_pos = self.default_pos.clone()

    def more(self) -> torch.Tensor:
        return self.joint_pos - self.default_pos

    def simulate(self) -> None:
        super().simulate()
        if self.step_number >= 60:
            self.joint_pos.add_(0.05 * self.torque + self.noise(1, 2)).clamp_(-1.0, 1.0)


def scatter_joints(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.joint_pos.copy_(draw(random, 1, 2))


TRAPS = (
    Trap(
        name="last action and the newest of an action history",
        why="They always hold the same values. Both are memories; merging them leaves one frozen.",
        make=robot(ActionHistory),
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        memories=frozenset({"env.last_action", "env.action_history"}),
        never_inputs=frozenset({"env.last_action", "env.action_history"}),
        is_set=stay_equal("env.last_action", "env.action_history[:, 0]", 60),
    ),
    Trap(
        name="copy of the state of the simulator",
        why="The state of the simulator has the same values, but the pipeline never reads it.",
        make=robot(Mirror),
        scatter=scatter_mirror,
        inputs=frozenset({"env.pos", "env.joint_pos"}),
        naive={"env.joint_pos": "left out", "env.sim.qpos": "input"},
        is_set=stay_equal("env.joint_pos", "env.sim.qpos", 60),
    ),
    Trap(
        name="copy and state of the simulator, both read",
        why="They are equal at each policy step, and differ only at sub-steps.",
        make=robot(MirrorAndSource),
        scatter=scatter_mirror,
        inputs=frozenset({"env.pos", "env.joint_pos", "env.sim.qpos"}),
        is_set=stay_equal("env.joint_pos", "env.sim.qpos", 60),
    ),
    Trap(
        name="two wheels that turn alike",
        why="Equal values for the whole run, and the names of all three give the same port name.",
        make=robot(TwoWheels),
        scatter=scatter_wheels,
        inputs=frozenset({"env.pos", "env.left.pos", "env.right.pos", "env.left_pos"}),
        is_set=stay_equal("env.left.pos", "env.right.pos", 100),
    ),
    Trap(
        name="position from home, equal to the position until a reset",
        why="In the first episode, both have the same values, so that one seems to be a copy of the other.",
        make=robot(PositionFromHome),
        scatter=scatter_home,
        inputs=frozenset({"env.pos", "env.from_home"}),
        is_set=holds_for("torch.equal(env.pos, env.from_home)", 36),
    ),
    Trap(
        name="last action, equal to the Output until a reset",
        why="The user names the Output, and the memory has its values at each step; only a reset tells them apart.",
        make=robot(ActionAndTorque),
        scatter=scatter_pos,
        inputs=frozenset({"env.pos"}),
        memories=frozenset({"env.last_action"}),
        never_inputs=frozenset({"env.last_action"}),
        naive={"env.last_action": "left out", "env.torque": "memory"},
        is_set=holds_for("torch.equal(env.last_action, env.torque)", 36),
    ),
    Trap(
        name="robot that stands at its default position",
        why="Measured and default position are equal for 60 steps; their difference is zero and hides both.",
        make=robot(StandsAtDefault),
        scatter=scatter_joints,
        inputs=frozenset({"env.pos", "env.joint_pos"}),
        never_inputs=frozenset({"env.default_pos"}),
        naive={"env.joint_pos": "left out", "env.default_pos": "input"},
        is_set=stay_equal("env.joint_pos", "env.default_pos", 60),
    ),
)
