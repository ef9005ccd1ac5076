"""Tensors are named by their attribute path, which is found without running code of the objects."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from exploy.live import object_graph
from exploy.live.attribute_paths import PathIndex, identifier_from_attr_path
from exploy.live.geometry import Geometry
from exploy.live.object_graph import resolve, walk


@dataclass
class Term:
    _scale: torch.Tensor = field(default_factory=lambda: torch.ones(2))


class Slotted:
    __slots__ = ("array", "unset")

    def __init__(self):
        self.array = np.ones(3)


class Robot:
    def __init__(self):
        self._terms = {"joint_pos": Term(), 3: Term()}
        self.buffers = [torch.zeros(1), torch.zeros(2)]
        self.slotted = Slotted()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 2))
        self.offsets = torch.nn.ParameterList([torch.zeros(2)])
        self.itself = self

    @property
    def trap(self) -> torch.Tensor:
        raise AssertionError("properties must not be called")


PATHS = [
    "env._terms['joint_pos']._scale",
    "env._terms[3]._scale",
    "env.buffers[1]",
    "env.slotted.array",
    "env.net[0].weight",
    "env.offsets[0]",
]


@pytest.mark.parametrize("path", PATHS)
def test_paths_are_written_as_in_python_and_can_be_followed_again(path):
    robot = Robot()
    found = {item.attr_path: item.value for item in walk({"env": robot})}
    assert resolve(robot, path) is found[path]


def test_a_dictionary_may_have_attributes_as_well():
    class Table(dict):
        pass

    table = Table(a=torch.zeros(1))
    table.bias = torch.ones(1)  # type: ignore[attr-defined]
    assert {found.attr_path for found in walk({"env": table})} == {"env", "env['a']", "env.bias"}


def test_a_path_that_leads_nowhere_gives_none():
    robot = Robot()
    for path in (
        "env.missing",
        "env.buffers[7]",
        "env._terms['other']",
        "env.buffers.x",
        "env..x",
        "env.slotted.unset",
    ):
        assert resolve(robot, path) is None


def test_a_rebound_tensor_is_found_anew():
    robot = Robot()
    robot.buffers[1] = torch.ones(5)
    assert resolve(robot, "env.buffers[1]") is robot.buffers[1]


def test_the_walk_is_bounded(monkeypatch):
    chain: list = []
    for _ in range(100):
        chain = [chain]
    assert len(list(walk({"env": chain}))) == object_graph.MAX_DEPTH + 1
    monkeypatch.setattr(object_graph, "MAX_OBJECTS", 10)
    assert len(list(walk({"env": [Term() for _ in range(50)]}))) == 10


def test_closures_are_followed_on_request():
    hidden = torch.ones(2)

    def function() -> torch.Tensor:
        return hidden

    assert not any(item.value is hidden for item in walk({"env": {"f": function}}))
    assert any(item.value is hidden for item in walk({"env": {"f": function}}, closures=True))


def test_memory_is_named_by_the_closest_tensor_around_it():
    robot = Robot()
    index = PathIndex({"env": robot})

    def name_of(tensor: torch.Tensor) -> str | None:
        named = index.find(Geometry.of(tensor))
        return named.attr_path if named else None

    assert name_of(robot._terms["joint_pos"]._scale) == "env._terms['joint_pos']._scale"
    assert name_of(robot.net.state_dict()["0.weight"][1]) == "env.net[0].weight"
    assert name_of(torch.from_numpy(robot.slotted.array[1:])) == "env.slotted.array"
    assert name_of(torch.ones(2)) is None


def test_paths_become_parts_of_port_names():
    assert identifier_from_attr_path("env._env._terms['leg']._scale") == "env_terms_leg_scale"
    assert identifier_from_attr_path("env.buffers[1]") == "env_buffers_1"
