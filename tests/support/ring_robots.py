"""Robots that keep their history in a ring buffer with a Python pointer, and that delay their targets with one."""

from typing import Any

import torch

from exploy.environment.substitutes import Substitute, substitute
from exploy.exporter.core.components import Input, Memory, Output
from tests.support.builds import Body


class Ring:
    """The last frames in a ring; a Python number says where the newest is."""

    def __init__(self, length: int, size: int):
        self.frames = torch.zeros(length, size)
        self.newest = 0

    def push(self, frame: torch.Tensor) -> None:
        self.newest = (self.newest + 1) % len(self.frames)
        self.frames[self.newest] = frame[0]

    def ago(self, steps: int) -> torch.Tensor:
        return self.frames[(self.newest - steps) % len(self.frames)][None]

    def clear(self) -> None:
        self.frames[:] = 0


class Shifting:
    """Stands for `Ring`: the newest frame is always the last one."""

    def push(self: Any, frame: torch.Tensor) -> None:
        self.newest = (self.newest + 1) % len(self.frames)
        self.frames.copy_(torch.cat([self.frames[1:], frame]))

    def ago(self: Any, steps: int) -> torch.Tensor:
        return self.frames[-1 - steps].clone()[None]


def in_order(ring: Any) -> None:
    ring.frames.copy_(ring.frames.roll(-1 - ring.newest, 0))


def as_ring(ring: Any) -> None:
    ring.frames.copy_(ring.frames.roll(1 + ring.newest, 0))


def shifting_rings(replacement: type = Shifting) -> Substitute:
    return substitute(Ring, replacement, from_original=in_order, to_original=as_ring)


class RingRobot(Body):
    """Observes the positions of three steps ago and the newest velocities; its targets are delayed by two steps."""

    def setup(self) -> None:
        self.history = Ring(4, 2)
        self.delay = Ring(3, 2)
        for _ in range(5):
            self.history.push(self.pos)

    def components(self) -> list[Any]:
        return [
            Input("pos", lambda: self.pos),
            Input("vel", lambda: self.vel),
            Output("targets", lambda: self.targets),
            Memory("history", lambda: self.history.frames),
            Memory("delay", lambda: self.delay.frames),
        ]

    def observe(self) -> torch.Tensor:
        self.history.push(self.pos)
        return torch.cat([self.history.ago(3), self.vel - self.history.ago(1)], -1)

    def accept(self, actions: torch.Tensor) -> None:
        self.delay.push(actions)
        self.targets[:] = self.delay.ago(2)

    def restart(self) -> None:
        super().restart()
        self.history.clear()
        self.delay.clear()
