"""Files for compilers of C: a robot with two rates, names, and memories that do not start from zero."""

import functools

import torch

from exploy.codegen.build import build
from exploy.codegen.compilers import Compiler, find_compiler
from exploy.runtime.model_file import ModelFile
from tests.support.environments import make_actor
from tests.support.files import exported
from tests.support.robot import Robot


class PlainRobot(Robot):
    """The robot with its actuators in the order of its joints."""

    def __init__(self, decimation: int = 4):
        super().__init__(decimation)
        self.filtered.fill_(0.25)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last[:] = actions
        self.targets[:] = 0.5 * actions + self.pos[:, :3]

    def apply_actions(self) -> None:
        self.filtered[:] = self.filtered + 0.3 * (self.targets - self.filtered) - 0.01 * self.vel[:, :3]


@functools.cache
def plain_robot_file(decimation: int = 4, golden_trace: bool = True) -> bytes:
    """Its ONNX file."""
    return exported(PlainRobot(decimation), make_actor(13, 3), golden_trace=golden_trace)


@functools.cache
def plain_robot_archive() -> bytes:
    """Its archive of C."""
    file = ModelFile.parse(plain_robot_file())
    return build(file.data, file.contract, "robot", find_compiler(), outline=file.outline).archive


def compiler() -> Compiler:
    """The compiler of this machine."""
    found = find_compiler()
    assert found is not None
    return found
