"""Functions that show what a step does are not those that callbacks of components call, which reading calls as well."""

from pathlib import Path

import pytest
import torch

from exploy.exporter.core.components import Input, Memory, Output
from tests.support.checking import check
from tests.support.environments import TestEnvironment, assert_agrees, make_actor


class PoseByMethod(TestEnvironment):
    """An Input's callback calls the method that the observations call; with hooks."""

    def __init__(self) -> None:
        super().__init__(reset_every=11)
        self.raw = torch.tensor([0.1, 0.2, 0.3, 1.0, 0.0, 0.0, 0.0])
        self.torque = torch.zeros(1, 2)
        self.last = torch.zeros(2)
        self.context_manager().add_components(self.components())

    def components(self):
        return [Input("quat", lambda: self.pose()[:, 3:7]), Output("torque", lambda: self.torque)]

    def pose(self) -> torch.Tensor:
        return self.raw.view(1, 7)

    def observe(self):
        return self.pose()[:, 3:7] * 2

    def apply_actions(self):
        self.torque[:] = self.law()

    def law(self) -> torch.Tensor:
        return self.targets - self.raw[3:5]

    def move(self):
        self.raw += 0.1 * self.noise(self.raw)


class PoseByMethodWithoutHooks(PoseByMethod):
    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        pass


class TorqueByMethod(PoseByMethodWithoutHooks):
    """An Output's callback calls the method that applies the actions."""

    def components(self):
        return [Input("quat", lambda: self.pose()[:, 3:7]), Output("torque", lambda: self.law())]


class MemoryByMethod(PoseByMethodWithoutHooks):
    """A Memory's callback calls a method that the observations call."""

    def components(self):
        return [*super().components(), Memory("last", lambda: self.history())]

    def history(self) -> torch.Tensor:
        return self.last.view(1, 2)

    def observe(self):
        return super().observe() + self.history().repeat(1, 2)

    def process_actions(self, actions):
        super().process_actions(actions)
        self.last.copy_(actions[0])

    def restart(self):
        self.last.zero_()


@pytest.mark.matrix(2)
@pytest.mark.parametrize("kind", [PoseByMethod, PoseByMethodWithoutHooks, TorqueByMethod, MemoryByMethod])
def test_callbacks_may_call_what_the_stages_call(kind, tmp_path: Path):
    env, actor = kind(), make_actor(4)
    diagnosis = check(env, actor)
    assert diagnosis.ok, diagnosis
    assert_agrees(env, actor, tmp_path, steps=40)
