"""Values that are computed when they are read for the first time after a simulator step, and kept until the next."""

import functools
from types import SimpleNamespace
from typing import Any

import torch

from exploy.environment.components import Connection
from exploy.environment.exportable_environment import ExportableEnvironment
from tests.support.discovery_traps.base import ResettableRobot, TrapRobot, draw, robot
from tests.support.discovery_traps.trap import Trap


class Body:
    """A body whose derived values have the time of their last refresh."""

    def __init__(self) -> None:
        self.yaw = torch.zeros(1, 1)
        self.vel_w = torch.zeros(1, 2)
        self._time = 0.0
        self._vel_b = SimpleNamespace(data=torch.zeros(1, 2), timestamp=-1.0)

    def update(self, dt: float) -> None:
        self._time += dt

    @property
    def vel_b(self) -> torch.Tensor:
        if self._vel_b.timestamp < self._time:
            sin, cos = self.yaw.sin(), self.yaw.cos()
            x, y = self.vel_w[:, :1], self.vel_w[:, 1:]
            self._vel_b.data = torch.cat([cos * x + sin * y, cos * y - sin * x], -1)
            self._vel_b.timestamp = self._time
        return self._vel_b.data


class CacheByTimestamp(TrapRobot):
    def setup(self) -> None:
        self.data = Body()

    def more(self) -> torch.Tensor:
        return self.data.vel_b

    def simulate(self) -> None:
        super().simulate()
        self.data.yaw.add_(self.noise(1, 1))
        self.data.vel_w.mul_(0.9).add_(0.1 * self.torque + self.noise(1, 2))
        self.data.update(0.005)


def scatter_body(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.data.yaw.copy_(draw(random, 1, 1))
    env.data.vel_w.copy_(draw(random, 1, 2))
    env.data.update(0.005)


def outdate_timestamp(env: Any, actor: torch.nn.Module) -> None:
    def outdate(_: object) -> None:
        env.data._vel_b.timestamp = -1.0

    env.context_manager().add_component(Connection("outdate", lambda: None, outdate))


class LazySensor:
    """A sensor that is refreshed when its data is read, where a flag says that it is outdated."""

    def __init__(self, body: SimpleNamespace):
        self._body = body
        self._data = SimpleNamespace(rate=torch.zeros(1, 2))
        self._is_outdated = torch.ones(1, dtype=torch.bool)

    def update(self) -> None:
        self._is_outdated[:] = True

    @property
    def data(self) -> SimpleNamespace:
        outdated = self._is_outdated.nonzero().flatten()
        if len(outdated) > 0:
            self._data.rate[outdated] = 2.0 * self._body.spin[outdated]
            self._is_outdated[outdated] = False
        return self._data


class CacheByFlagTensor(ResettableRobot):
    def setup(self) -> None:
        self.body = SimpleNamespace(spin=torch.zeros(1, 2))
        self.imu = LazySensor(self.body)

    def more(self) -> torch.Tensor:
        return self.imu.data.rate

    def simulate(self) -> None:
        super().simulate()
        self.body.spin.mul_(0.9).add_(0.2 * self.torque + self.noise(1, 2))
        self.imu.update()

    def restart(self) -> None:
        super().restart()
        self.body.spin.zero_()
        self.imu.update()


def scatter_imu(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.body.spin.copy_(draw(random, 1, 2))
    env.imu.update()


def outdate_flag(env: Any, actor: torch.nn.Module) -> None:
    def outdate(_: object) -> None:
        env.imu._is_outdated = torch.ones(1, dtype=torch.bool)

    env.context_manager().add_component(Connection("outdate", lambda: None, outdate))


class Readings:
    """Computes its values once; whoever moves the robot deletes them."""

    def __init__(self) -> None:
        self.raw = torch.zeros(1, 2)

    @functools.cached_property
    def scaled(self) -> torch.Tensor:
        return 0.5 * self.raw + 0.1


class CachedProperty(TrapRobot):
    def setup(self) -> None:
        self.readings = Readings()

    def more(self) -> torch.Tensor:
        return self.readings.scaled

    def simulate(self) -> None:
        super().simulate()
        self.readings.raw = 0.9 * self.readings.raw + self.noise(1, 2)

    def end_step(self) -> None:
        self.readings.__dict__.pop("scaled", None)

    def restart(self) -> None:
        super().restart()
        self.end_step()


def scatter_readings(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.readings.raw = draw(random, 1, 2)
    env.end_step()


def empty_readings(env: Any, actor: torch.nn.Module) -> None:
    env.context_manager().add_component(Connection("empty", lambda: None, lambda _: env.end_step()))


class CacheOfTheMotors(TrapRobot):
    """The motors keep their velocity for the frame of the simulator; only sub-steps read it."""

    width = 2
    ticks = 3

    def setup(self) -> None:
        self.joint_vel = torch.zeros(1, 2)
        self.frame, self.known_frame = 0, -1
        self.known: dict[str, torch.Tensor] = {}

    def velocity(self) -> torch.Tensor:
        if self.known_frame != self.frame:
            self.known["vel"] = 0.5 * self.joint_vel
            self.known_frame = self.frame
        return self.known["vel"]

    def compute_observations(self) -> torch.Tensor:
        self.velocity()
        return self.pos * 1.0

    def process_actions(self, actions: torch.Tensor) -> None:
        self.target = 0.5 * actions

    def apply_actions(self) -> None:
        self.torque = self.target - self.velocity()

    def simulate(self) -> None:
        super().simulate()
        self.joint_vel.mul_(0.9).add_(0.2 * self.torque + self.noise(1, 2))
        self.frame += 1


def scatter_motors(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.joint_vel.copy_(draw(random, 1, 2))
    env.frame += 1


def outdate_frame(env: ExportableEnvironment, actor: torch.nn.Module) -> None:
    def outdate(_: object) -> None:
        env.known_frame = -1  # type: ignore[attr-defined]

    env.context_manager().add_component(Connection("outdate", lambda: None, outdate))


TRAPS = (
    Trap(
        name="derived value with a timestamp",
        why="It was just computed when the capture comes, so the file keeps it, or it is taken for a sensor.",
        make=robot(CacheByTimestamp),
        scatter=scatter_body,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"env.data._vel_b"}),
        never_inputs=frozenset({"env.data._vel_b.data"}),
        naive={"env.data._vel_b.data": "input"},
        answers={"env.data.yaw": "input", "env.data.vel_w": "input"},
        remedy=outdate_timestamp,
    ),
    Trap(
        name="sensor that a flag tensor outdates",
        why="The flag is a tensor that step() sets and reading clears. Flag and data look like state.",
        make=robot(CacheByFlagTensor),
        scatter=scatter_imu,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"env.imu._data"}),
        never_inputs=frozenset({"env.imu._data.rate", "env.imu._is_outdated"}),
        naive={"env.imu._data.rate": "input"},
        answers={"env.body.spin": "input"},
        remedy=outdate_flag,
    ),
    Trap(
        name="cached property that step() deletes",
        why="The attribute does not exist until it is read. It is not the same tensor in any two steps.",
        make=robot(CachedProperty),
        scatter=scatter_readings,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"scaled"}),
        never_inputs=frozenset({"env.readings.scaled"}),
        naive={"env.readings.scaled": "input"},
        answers={"env.readings.raw": "input"},
        remedy=empty_readings,
    ),
    Trap(
        name="velocity cached for a frame, read at sub-steps",
        why="No observation shows it: the observation refreshes the cache, and only the torque depends on it.",
        make=robot(CacheOfTheMotors),
        scatter=scatter_motors,
        inputs=frozenset({"env.pos"}),
        to_be_said=frozenset({"env.known"}),
        never_inputs=frozenset({"env.known['vel']"}),
        naive={"env.known['vel']": "input"},
        answers={"env.joint_vel": "input"},
        remedy=outdate_frame,
    ),
)
