"""Which of the offered components a pipeline uses."""

from functools import partial

import torch

from exploy.capture.capture import capture
from exploy.environment.components import Input, Memory, Output
from exploy.simulators.manager_based.used_ports import used_ports
from tests.support.environments import TestEnvironment, make_actor


class Robot(TestEnvironment):
    """Reads the poses of all bodies, and uses those of one. Its filter has a gain and two numbers, one unused."""

    num_observations = 4

    def __init__(self) -> None:
        super().__init__()
        self.bodies = torch.rand(1, 5, 3)
        self.velocity = torch.rand(1, 1)
        self.filtered = torch.zeros(1, 1)
        self.before = torch.zeros(1, 1)
        self.older = torch.zeros(1, 1)
        self.gain = torch.full((1, 1), 0.9)
        self.frame = torch.tensor([1])
        self.motion = torch.rand(3, 1)
        self.context_manager().add_components(
            [
                *(Input(f"body_{index}", partial(self.bodies.select, 1, index)) for index in range(5)),
                Input("velocity", lambda: self.velocity),
                Input("frame", lambda: self.frame),
                *(Memory(name, partial(getattr, self, name)) for name in ("filtered", "before", "older", "gain")),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self) -> torch.Tensor:
        poses = self.bodies[:, torch.tensor([0, 1, 2, 3, 4])] * 2.0
        filtered = self.gain * self.filtered + 0.1 * self.before
        self.older = self.before + 0.0
        self.before = poses[:, 3, :1] * self.motion[self.frame]
        self.filtered = filtered
        return torch.cat([poses[:, 3, :2], filtered, poses[:, 1, :1] * 0.0], -1)


def used() -> set[str]:
    env = Robot()
    return used_ports(capture(env, make_actor(4).eval()))


def test_inputs_that_change_no_result_are_not_used() -> None:
    found = used()
    assert "body_3" in found
    assert not found & {"body_0", "body_1", "body_2", "body_4", "velocity"}


def test_memories_count_if_what_is_used_depends_on_them() -> None:
    assert used() >= {"memory.filtered.in", "memory.before.in"}


def test_memories_that_only_unused_memories_need_are_not_used() -> None:
    assert "memory.older.in" not in used()


def test_memories_that_nothing_writes_are_constants() -> None:
    assert "memory.gain.in" not in used()


def test_an_index_counts_although_other_values_of_it_are_not_valid() -> None:
    assert "frame" in used()
