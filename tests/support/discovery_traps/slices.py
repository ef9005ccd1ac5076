"""Large state tensors of which only some elements matter, and views of them."""

from typing import Any

import torch

from exploy.environment.exportable_environment import Observations
from tests.support.discovery_traps.base import ResettableRobot, TrapEnvironment, TrapRobot, draw, robot
from tests.support.discovery_traps.trap import Trap


class SliceOfTheState(TrapEnvironment):
    """The two joints of the robot are two of 36 positions in the simulator; all of them move."""

    width = 2

    def setup(self) -> None:
        self.qpos = torch.zeros(1, 36)

    def compute_observations(self) -> Observations:
        return self.qpos[:, 7:9] * 1.0

    def simulate(self) -> None:
        self.qpos.mul_(0.95).add_(self.noise(1, 36))
        self.qpos[:, 7:9] += 0.1 * self.torque


def scatter_qpos(env: Any, random: torch.Generator) -> None:
    env.qpos.copy_(draw(random, *env.qpos.shape))


class ColumnsOfTheState(TrapEnvironment):
    """Reads the columns 0, 2 and 5 of the state, by a tensor of indices."""

    width = 3

    def setup(self) -> None:
        self.state = torch.zeros(1, 6)
        self.columns = torch.tensor([0, 2, 5])

    def compute_observations(self) -> Observations:
        return self.state[:, self.columns]

    def simulate(self) -> None:
        self.state = 0.95 * self.state + self.noise(1, 6)


def scatter_columns(env: Any, random: torch.Generator) -> None:
    env.state = draw(random, 1, 6)


class ViewsOfTheState(TrapEnvironment):
    """Has a view of the joints in the state of the simulator, and slices the rest of it where it needs it."""

    ticks = 3

    def setup(self) -> None:
        self.qpos = torch.zeros(1, 8)
        self.joint_pos = self.qpos[:, 6:]

    def compute_observations(self) -> Observations:
        return torch.cat([self.joint_pos, self.qpos[:, 0:2]], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.target = 0.5 * actions

    def apply_actions(self) -> None:
        self.torque = self.target - 0.2 * self.qpos[:, 6:8]

    def simulate(self) -> None:
        self.qpos.mul_(0.95).add_(self.noise(1, 8))


class InterleavedViews(TrapRobot):
    """Positions and velocities are interleaved in one tensor, and read by two strided views."""

    width = 6

    def setup(self) -> None:
        self.dof_state = torch.zeros(1, 2, 2)
        self.dof_pos = self.dof_state[..., 0]
        self.dof_vel = self.dof_state[..., 1]

    def more(self) -> torch.Tensor:
        return torch.cat([self.dof_pos, 0.1 * self.dof_vel], -1)

    def simulate(self) -> None:
        super().simulate()
        self.dof_state.mul_(0.9).add_(self.noise(1, 2, 2))
        self.dof_state[..., 1] += 0.1 * self.torque


def scatter_dofs(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.dof_state.copy_(draw(random, 1, 2, 2))


class TwoRobots(ResettableRobot):
    """The first row of the tensor is this robot, the second one another robot that it does not see."""

    width = 6

    def setup(self) -> None:
        self.robots = torch.zeros(2, 4)
        self.own = 0

    def more(self) -> torch.Tensor:
        return self.robots[self.own : self.own + 1]

    def simulate(self) -> None:
        super().simulate()
        self.robots.mul_(0.9).add_(self.noise(2, 4))


def scatter_robots(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.robots.copy_(draw(random, 2, 4))


TRAPS = (
    Trap(
        name="two joints of a state of 36",
        why="The port of the file should be two joints, not everything that the simulator knows.",
        make=robot(SliceOfTheState),
        scatter=scatter_qpos,
        inputs=frozenset({"env.qpos[:, 7:9]"}),
        naive={"env.qpos[:, 7:9]": "left out", "env.qpos[:, 0:7]": "input", "env.qpos[:, 9:]": "input"},
    ),
    Trap(
        name="columns 0, 2 and 5 of a state",
        why="The columns are read by a tensor of indices, as a copy. The copy is no input, and no one slice has them.",
        make=robot(ColumnsOfTheState),
        scatter=scatter_columns,
        inputs=frozenset({"env.state[:, 0:1]", "env.state[:, 2:3]", "env.state[:, 5:6]"}),
    ),
    Trap(
        name="view of the joints in the state, both read",
        why="The joints are read by two names, also at sub-steps. Two overlapping inputs contradict each other.",
        make=robot(ViewsOfTheState),
        scatter=scatter_qpos,
        inputs=frozenset({"env.joint_pos", "env.qpos[:, 0:2]"}),
    ),
    Trap(
        name="positions and velocities interleaved in one tensor",
        why="Neither view is contiguous, and the simulator writes only the tensor that nobody reads by name.",
        make=robot(InterleavedViews),
        scatter=scatter_dofs,
        inputs=frozenset({"env.pos", "env.dof_pos", "env.dof_vel"}),
    ),
    Trap(
        name="two robots in one tensor",
        why="A robot does not know the state of the other one, which moves as much as its own.",
        make=robot(TwoRobots),
        scatter=scatter_robots,
        inputs=frozenset({"env.pos", "env.robots[0:1]"}),
        naive={"env.robots[0:1]": "left out", "env.robots[1:2]": "input"},
    ),
)
