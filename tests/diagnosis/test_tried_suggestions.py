"""Code that a finding suggests was tried: code that would not mend the finding is not shown, but what to do instead."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from exploy.diagnosis.finding import FindingKind as Kind
from exploy.diagnosis.pasting import is_code
from exploy.exporter.core.components import Connection, Group, Input, Output
from tests.diagnosis.test_faults import ForgottenSensor, Noisy, Remembering, Robot, the_finding
from tests.support.checking import check
from tests.support.environments import make_actor
from tests.support.pasting import paste

LAST: dict[str, torch.Tensor] = {}
CACHE = SimpleNamespace(vel=torch.zeros(1, 2), is_outdated=True)

# -- code that mends its finding --------------------------------------------------------------------------------------


class WholeAndPart(Robot):
    """A state tensor and a view of a part of it, both read, as in legged_gym."""

    def setup(self):
        self.root_states = torch.zeros(1, 13)
        self.base_quat = self.root_states[:, 3:7]

    def observe(self):
        return super().observe() + self.base_quat + self.root_states[:, 7:11]

    def move(self):
        super().move()
        self.root_states += 0.1


class TwoSlices(Robot):
    """The middle of a tensor is registered, the rest is forgotten."""

    def setup(self):
        self.state = torch.zeros(1, 6)

    def components(self):
        return [*super().components(), Input("middle", lambda: self.state[:, 2:4])]

    def observe(self):
        return super().observe() + self.state[:, :4] + self.state[:, 2:]

    def move(self):
        super().move()
        self.state += 0.1


class GroupedCopy(Robot):
    """A detached Input in a group, whose place its twin takes."""

    def setup(self):
        group = Group("joints", [Input("pos", lambda: self.pos.clone()), Input("vel", lambda: self.vel)])
        self.context_manager().add_group(group)

    def components(self):
        return [Output("targets", lambda: self.targets)]


class GlobalMemory(Robot):
    """The pipeline writes a global: an import stands in front of the Memory."""

    def setup(self):
        LAST["action"] = torch.zeros(1, 2)

    def observe(self):
        return torch.cat([self.pos, self.vel + LAST["action"]], -1)

    def process_actions(self, actions):
        super().process_actions(actions)
        LAST["action"] = actions.clone()


class GlobalCache(Robot):
    """A cache in a global, behind a flag."""

    def setup(self):
        CACHE.is_outdated = True
        self.observe()

    def observe(self):
        if CACHE.is_outdated:
            CACHE.vel, CACHE.is_outdated = self.vel * 2, False
        return torch.cat([self.pos, CACHE.vel], -1)

    def move(self):
        super().move()
        CACHE.is_outdated = True


class TwoCaches(Robot):
    """Buffers with time stamps, as Isaac Lab has many: each needs a Connection with a name of its own."""

    def setup(self):
        self.time = 0.0
        self.body, self.foot = (SimpleNamespace(data=torch.zeros(1, 2), timestamp=-1.0) for _ in range(2))
        self.context_manager().add_component(Connection("refresh_timestamp", lambda: None, lambda _: None))
        self.observe()

    def cached(self, buffer, value):
        if buffer.timestamp < self.time:
            buffer.data, buffer.timestamp = value, self.time
        return buffer.data

    def observe(self):
        return torch.cat([self.cached(self.body, self.pos * 2), self.cached(self.foot, self.vel * 3)], -1)

    def move(self):
        super().move()
        self.time += 0.005


class Cell(torch.nn.Module):
    hidden: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("hidden", torch.zeros(1, 2))

    def forward(self, x):
        self.hidden = 0.5 * self.hidden + x
        return self.hidden * 1.0


class ModuleInAClosure(Robot):
    """Nothing but the context manager leads to the module."""

    def setup(self):
        cell = Cell()
        self.context_manager().add_module(cell)
        self.filter = lambda x: cell(x)

    def observe(self):
        return torch.cat([self.pos, self.filter(self.vel)], -1)


class RememberingOpenly(Remembering):
    def get_state(self):
        return (self.hidden,)


MENDED: dict[str, tuple[type[Robot], Any, str]] = {
    "whole and part": (WholeAndPart, make_actor, 'Input(name="root_states"'),
    "two slices": (TwoSlices, make_actor, 'Input(name="state_4_6"'),
    "twin in a group": (GroupedCopy, make_actor, 'Input(name="joints.pos"'),
    "import in front of a Memory": (GlobalMemory, make_actor, 'Memory(name="action"'),
    "import in front of a Connection": (GlobalCache, make_actor, 'Connection(name="refresh_is_outdated"'),
    "two Connections": (TwoCaches, make_actor, 'Connection(name="refresh_foot_timestamp"'),
    "module of the context manager": (ModuleInAClosure, make_actor, 'Memory(name="hidden"'),
    "state of the actor": (Robot, lambda _: RememberingOpenly(), "add_actor_memory("),
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", MENDED)
def test_code_that_is_shown_mends_all_findings(name):
    kind, actor_of, code = MENDED[name]
    env, actor = kind(), actor_of(4)
    diagnosis = check(env, actor)
    assert diagnosis.errors and code in "\n".join(diagnosis.suggestions), diagnosis
    paste(diagnosis, env, actor)
    mended = check(env, actor)
    assert mended.ok, mended


# -- code that would not ----------------------------------------------------------------------------------------------


class Copied:
    """An attribute that hands out copies, and keeps copies of what it gets."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, holder, owner=None):
        return self if holder is None else vars(holder)[self.name].clone()

    def __set__(self, holder, value):
        vars(holder)[self.name] = value.clone()


class Data:
    value = Copied()


class CopiedSensor(Robot):
    def setup(self):
        self.data = Data()
        self.data.value = torch.zeros(1, 4)

    def observe(self):
        return super().observe() + self.data.value

    def move(self):
        super().move()
        self.data.value = self.data.value + 0.1


class CopiedMemory(Robot):
    def setup(self):
        self.data = Data()
        self.data.value = torch.zeros(1, 2)

    def observe(self):
        return torch.cat([self.pos, self.vel + self.data.value], -1)

    def process_actions(self, actions):
        super().process_actions(actions)
        self.data.value = actions


class CopiedConstant(CopiedSensor):
    """Registered, but as a copy; the attribute that is equal gives copies as well."""

    def components(self):
        return [*super().components(), Input("value", lambda: self.data.value)]

    def move(self):
        Robot.move(self)


class ReadOnlyFlag:
    """A flag that only its owner sets."""

    def __init__(self):
        self.__dict__["is_outdated"] = True

    @property
    def is_outdated(self):
        return vars(self)["is_outdated"]

    @is_outdated.setter
    def is_outdated(self, value):
        """Ignore what others say."""


class CacheBehindAReadOnlyFlag(Robot):
    def setup(self):
        self.flag, self.cache = ReadOnlyFlag(), torch.zeros(1, 2)
        self.observe()

    def observe(self):
        if self.flag.is_outdated:
            self.cache = self.vel * 2
            vars(self.flag)["is_outdated"] = False
        return torch.cat([self.pos, self.cache], -1)

    def move(self):
        super().move()
        vars(self.flag)["is_outdated"] = True


class BranchOnASensor(Robot):
    def setup(self):
        self.contact = torch.zeros(1)

    def observe(self):
        return super().observe() * (2.0 if self.contact[0] > 0.5 else 1.0)

    def move(self):
        super().move()
        self.contact[:] = 1 - self.contact


class ReversedArray(Robot):
    """torch.from_numpy() does not take an array that is stored backwards."""

    def setup(self):
        self.sensor = np.zeros((1, 4), np.float32)[:, ::-1]

    def observe(self):
        return super().observe() + torch.from_numpy(self.sensor[:, ::-1])

    def move(self):
        super().move()
        self.sensor += 0.1


class ExpandedSensor(Robot):
    def setup(self):
        self.height = torch.zeros(1, 1).expand(1, 4)

    def observe(self):
        return super().observe() + self.height

    def move(self):
        super().move()
        self.height = (self.height[:, :1] + 0.1).expand(1, 4)


@dataclasses.dataclass(frozen=True)
class Clock:
    time: float = 0.0


class FrozenClock(Robot):
    """The number cannot be replaced where it is."""

    def setup(self):
        self.clock = Clock()

    def observe(self):
        return super().observe() + self.clock.time

    def move(self):
        super().move()
        self.clock = Clock(self.clock.time + 0.01)


class OnlyFloats(Robot):
    """A tensor does not stay one."""

    def setup(self):
        self.phase = 0.0

    def __setattr__(self, name, value):
        super().__setattr__(name, float(value) if name == "phase" else value)

    def observe(self):
        return super().observe() + self.phase

    def move(self):
        super().move()
        self.phase += 0.01


@dataclasses.dataclass(frozen=True)
class NoiseSettings:
    add_noise: bool = True


class FrozenNoise(Noisy):
    def setup(self):
        self.cfg = NoiseSettings()  # type: ignore[assignment]


NOT_MENDED: dict[type[Robot], tuple[Kind, str, str]] = {
    CopiedSensor: (Kind.UNREGISTERED_INPUT, "env.data.value", "a property may copy it. Store one tensor"),
    CopiedMemory: (Kind.MISSING_MEMORY, "env.data.value", "and register it: Memory(…)"),
    CopiedConstant: (Kind.DETACHED, "value", "make the callback of Input('value') return the tensor"),
    CacheBehindAReadOnlyFlag: (Kind.STALE_CACHE, "env.cache", "add a Connection that makes the environment compute"),
    BranchOnASensor: (Kind.UNREGISTERED_INPUT, "env.contact", "torch.where() instead of an if"),
    ReversedArray: (Kind.UNREGISTERED_INPUT, "env.sensor", "raises ValueError"),
    ExpandedSensor: (Kind.UNREGISTERED_INPUT, "env.height", "Register the tensor before it is expanded."),
    FrozenClock: (Kind.PYTHON_STATE, "env.clock.time", "keep env.clock.time in a tensor"),
    OnlyFloats: (Kind.PYTHON_STATE, "env.phase", "keep env.phase in a tensor"),
    FrozenNoise: (Kind.RANDOM, "obs", "disable observation noise before exporting"),
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("env", NOT_MENDED)
def test_code_that_would_not_mend_a_finding_is_not_shown(env):
    kind, tensor, advice = NOT_MENDED[env]
    finding = the_finding(check(env(), make_actor(4)), kind, tensor)
    assert not is_code(finding.suggestion) and advice in finding.suggestion, finding.suggestion


# -- several findings, and what a trial leaves behind -----------------------------------------------------------------


class SomeOfEach(BranchOnASensor):
    """Two sensors can be registered as they are, and one number kept in a tensor; the branch cannot."""

    def setup(self):
        super().setup()
        self.imu, self.heights, self.phase = torch.zeros(1, 4), torch.zeros(1, 4), 0.0

    def observe(self):
        return super().observe() + self.imu + self.heights + self.phase

    def move(self):
        super().move()
        self.imu, self.heights, self.phase = self.imu + 0.1, self.heights + 0.2, self.phase + 0.01


def test_code_is_shown_next_to_code_that_fails():
    diagnosis = check(SomeOfEach(), make_actor(4))
    shown = {item.tensor: is_code(item.suggestion) for item in diagnosis.errors}
    assert shown == {"env.contact": False, "env.imu": True, "env.heights": True, "env.phase": True}, diagnosis


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [SomeOfEach, GroupedCopy])
def test_a_check_leaves_components_and_attributes_as_they_were(kind):
    env = kind()
    check(env, make_actor(4))
    manager = env.context_manager()
    components = [*manager.get_input_components(), *manager.get_output_components()]
    attributes = {name: type(value) for name, value in vars(env).items()}
    diagnosis = check(env, make_actor(4))
    assert any(map(is_code, diagnosis.suggestions))
    assert [*manager.get_input_components(), *manager.get_output_components()] == components
    assert {name: type(value) for name, value in vars(env).items()} == attributes
    assert not manager.get_connection_components()


class LateBranch(ForgottenSensor):
    """After some steps it branches on an Input, which cannot be captured."""

    def observe(self):
        if self._steps > 5 and self.vel.sum() > 100.0:
            raise ValueError("too fast")
        return super().observe()


def test_suggestions_stay_where_the_environment_cannot_be_captured_any_more():
    """Then a trial says nothing about them."""
    finding = the_finding(check(LateBranch(), make_actor(4)), Kind.UNREGISTERED_INPUT, "env.imu")
    assert finding.suggestion == 'Input(name="imu", get_from_env_cb=lambda: env.imu)'
