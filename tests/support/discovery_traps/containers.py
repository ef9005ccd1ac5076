"""Inputs that are hard to reach, to find again, or to name."""

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from tests.support.discovery_traps.base import ResettableRobot, TrapRobot, draw, robot
from tests.support.discovery_traps.trap import Trap


class ThousandReadings(TrapRobot):
    """The simulator has a dictionary of 1000 readings, which all change. The pipeline reads three."""

    width = 5
    read = ("joint_0007/pos", "joint_0123/pos", "joint_0999/pos")

    def setup(self) -> None:
        self.readings = {f"joint_{number:04}/pos": torch.zeros(1, 1) for number in range(1000)}

    def more(self) -> torch.Tensor:
        return torch.cat([self.readings[name] for name in self.read], -1)

    def end_step(self) -> None:
        for reading, value in zip(self.readings.values(), self.noise(1000), strict=True):
            reading.fill_(value)


def scatter_readings(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    for reading, value in zip(env.readings.values(), draw(random, 1000), strict=True):
        reading.fill_(value)


class Slotted:
    """A sensor without a dictionary of attributes."""

    __slots__ = ("data", "label")

    def __init__(self) -> None:
        self.data = torch.zeros(1, 2)
        self.label = "imu"


class NestedSensors(ResettableRobot):
    """Sensors in dictionaries whose keys are paths and tuples; the objects have slots and are replaced."""

    width = 6

    def setup(self) -> None:
        self.sensors: dict[Any, Any] = {"imu/left-hip": Slotted(), "groups": {("leg", 0): [Slotted()]}}

    def more(self) -> torch.Tensor:
        return torch.cat([self.sensors["imu/left-hip"].data, self.sensors["groups"]["leg", 0][0].data], -1)

    def end_step(self) -> None:
        hip = Slotted()
        hip.data = 0.9 * self.sensors["imu/left-hip"].data + self.noise(1, 2)
        self.sensors["imu/left-hip"] = hip
        self.sensors["groups"]["leg", 0][0].data.mul_(0.9).add_(self.noise(1, 2))


def scatter_sensors(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.sensors["imu/left-hip"].data = draw(random, 1, 2)
    env.sensors["groups"]["leg", 0][0].data.copy_(draw(random, 1, 2))


WIND = torch.zeros(1, 2)


class GlobalWind(TrapRobot):
    """What the robot measures of the wind is a global of the module."""

    def setup(self) -> None:
        WIND.zero_()

    def more(self) -> torch.Tensor:
        return 2.0 * WIND

    def end_step(self) -> None:
        WIND.mul_(0.9).add_(self.noise(1, 2))


def scatter_wind(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    WIND.copy_(draw(random, 1, 2))


class ClassHeading(ResettableRobot):
    """The heading is an attribute of the class, which step() replaces there."""

    heading = torch.zeros(1, 2)

    def setup(self) -> None:
        type(self).heading = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return self.heading * 1.0

    def end_step(self) -> None:
        type(self).heading = 0.9 * self.heading + self.noise(1, 2)


def scatter_heading(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    type(env).heading = draw(random, 1, 2)


Read = Callable[[], torch.Tensor]
Write = Callable[[torch.Tensor], object]


def channel() -> tuple[Read, Write]:
    """Two functions around a tensor that nothing else holds."""
    reading = torch.zeros(1, 2)
    return lambda: 2.0 * reading, lambda value: reading.copy_(value)


def scaled(reading: torch.Tensor, factor: float) -> torch.Tensor:
    return factor * reading


class ObservationTerms(TrapRobot):
    """Its observation terms are functions: a closure, and a partial that holds its tensor."""

    width = 6

    def setup(self) -> None:
        read, write = channel()
        gyro = torch.zeros(1, 2)
        self.terms: list[Read] = [read, functools.partial(scaled, gyro, 0.25)]
        self.writers: list[Write] = [write, gyro.copy_]

    def more(self) -> torch.Tensor:
        return torch.cat([term() for term in self.terms], -1)

    def end_step(self) -> None:
        for write in self.writers:
            write(3.0 * self.noise(1, 2))


def scatter_terms(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    for write in env.writers:
        write(draw(random, 1, 2))


class TwoBuffers(TrapRobot):
    """The simulator computes its next state in a second buffer, and exchanges both at each tick."""

    ticks = 3

    def setup(self) -> None:
        self.state_in, self.state_out = (SimpleNamespace(joint_q=torch.zeros(1, 2)) for _ in range(2))

    def more(self) -> torch.Tensor:
        return self.state_in.joint_q

    def process_actions(self, actions: torch.Tensor) -> None:
        self.target = 0.5 * actions

    def apply_actions(self) -> None:
        self.torque = self.target - 0.2 * self.state_in.joint_q

    def simulate(self) -> None:
        super().simulate()
        self.state_out.joint_q.copy_(0.9 * self.state_in.joint_q + self.noise(1, 2))
        self.state_in, self.state_out = self.state_out, self.state_in


def scatter_buffers(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.state_in.joint_q.copy_(draw(random, 1, 2))


class ReboundState(ResettableRobot):
    """The simulator hands out new objects with new tensors; the limits have always the same values."""

    def setup(self) -> None:
        self.data = SimpleNamespace(vel=torch.zeros(1, 2), limits=torch.full((1, 2), 0.3))

    def more(self) -> torch.Tensor:
        return self.data.vel / self.data.limits

    def simulate(self) -> None:
        super().simulate()
        vel = 0.8 * self.data.vel + 0.1 * self.torque + self.noise(1, 2)
        self.data = SimpleNamespace(vel=vel, limits=self.data.limits.clone())


def scatter_rebound(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.data = SimpleNamespace(vel=draw(random, 1, 2), limits=env.data.limits.clone())


TRAPS = (
    Trap(
        name="three of a thousand readings",
        why="All change. A thousand inputs are no answer, and looking at each takes long.",
        make=robot(ThousandReadings),
        scatter=scatter_readings,
        inputs=frozenset({"env.pos", *(f"env.readings[{name!r}]" for name in ThousandReadings.read)}),
        never_inputs=frozenset({"env.readings['joint_0008/pos']"}),
    ),
    Trap(
        name="sensors in containers with odd keys",
        why="The keys are no identifiers, the objects have slots, and one is another object after each step.",
        make=robot(NestedSensors),
        scatter=scatter_sensors,
        inputs=frozenset({"env.pos", "env.sensors['imu/left-hip'].data", "env.sensors['groups'][('leg', 0)][0].data"}),
    ),
    Trap(
        name="tensor that is a global of a module",
        why="No attribute of environment or actor leads to it.",
        make=robot(GlobalWind),
        scatter=scatter_wind,
        inputs=frozenset({"env.pos", "env.more.__globals__['WIND']"}),
    ),
    Trap(
        name="tensor that is an attribute of the class",
        why="The environment itself has no such attribute, and setting it there would hide the one of the class.",
        make=robot(ClassHeading),
        scatter=scatter_heading,
        inputs=frozenset({"env.pos", "env.heading"}),
    ),
    Trap(
        name="observation terms that are functions",
        why="One tensor is only in a closure, the other one only among the arguments of a partial.",
        make=robot(ObservationTerms),
        scatter=scatter_terms,
        inputs=frozenset({"env.pos", "env.terms[0].__closure__[0].cell_contents", "env.terms[1].args[0]"}),
    ),
    Trap(
        name="two buffers of a simulator that are exchanged",
        why="A reference to the tensor is the wrong one after an odd number of ticks; only the attribute is right.",
        make=robot(TwoBuffers),
        scatter=scatter_buffers,
        inputs=frozenset({"env.pos", "env.state_in.joint_q"}),
        naive={"env.state_in.joint_q": "left out", "env.state_out.joint_q": "input"},
    ),
    Trap(
        name="new objects with new tensors at each tick",
        why="A reference to the first tensor is old after one tick. The limits are replaced too, but do not change.",
        make=robot(ReboundState),
        scatter=scatter_rebound,
        inputs=frozenset({"env.pos", "env.data.vel"}),
        never_inputs=frozenset({"env.data.limits"}),
    ),
)
