"""State that cannot be restored or looked at is said; singletons are found behind their classes and functions."""

import itertools
import re
import warnings
from pathlib import Path

import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import NotRestoredWarning, VerificationError
from exploy.live import object_graph
from tests.diagnosis.test_faults import Robot
from tests.support.checking import check
from tests.support.environments import make_actor


class Simulation:
    """A singleton, as SimulationContext of Isaac Sim is one."""

    _instance = None

    def __init__(self):
        self.time, self.calls = 0.0, 0

    @classmethod
    def instance(cls):
        if cls._instance is None:
            cls._instance = Simulation()
        return cls._instance


class Proxy:
    """Forwards to an object that a function returns, as LocalProxy of werkzeug does."""

    __slots__ = ("_get",)

    def __init__(self, get):
        object.__setattr__(self, "_get", get)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_get")(), name)

    def __setattr__(self, name, value):
        setattr(object.__getattribute__(self, "_get")(), name, value)


class ThroughClass(Robot):
    def setup(self):
        Simulation._instance = Simulation()

    @property
    def simulation(self):
        return Simulation.instance()

    def observe(self):
        self.simulation.calls += 1
        return super().observe() + self.simulation.time

    def move(self):
        super().move()
        self.simulation.time += 0.01


class ThroughProxy(ThroughClass):
    """The object is in a variable that a function has captured."""

    def setup(self):
        inner = Simulation()
        self.proxy = Proxy(lambda: inner)

    @property
    def simulation(self):
        return self.proxy


class ThroughMethod(ThroughClass):
    def setup(self):
        self.inner = {"simulation": Simulation()}
        self.get = self.inner["simulation"].__getattribute__

    @property
    def simulation(self):
        return self.inner["simulation"]


@pytest.fixture(autouse=True)
def _no_instance():
    yield
    Simulation._instance = None


@pytest.mark.parametrize("kind", [ThroughClass, ThroughMethod])
def test_state_of_a_singleton_is_named(kind):
    (finding,) = check(kind(), make_actor(4)).errors
    path = "test_out_of_reach.Simulation._instance" if kind is ThroughClass else "env.inner['simulation']"
    assert (finding.kind, finding.tensor) == (FindingKind.PYTHON_STATE, f"{path}.time")


@pytest.mark.parametrize("kind", [ThroughClass, ThroughProxy, ThroughMethod])
def test_a_capture_restores_state_behind_a_singleton(kind, tmp_path: Path):
    env = kind()
    exploy.export(env, make_actor(4), tmp_path / "policy.onnx", strict=False, initial_memory="found")
    assert env.simulation.calls == 0


class Counting(Robot):
    def setup(self):
        self.ids = itertools.count()

    def observe(self):
        self.last_id = next(self.ids)
        return super().observe()


class GeneratorInAList(Robot):
    def setup(self):
        self.sources = [self.numbers()]

    def numbers(self):
        yield from range(10_000)

    def observe(self):
        next(self.sources[0])
        return super().observe()


class IteratorInAClosure(Robot):
    def setup(self):
        numbers = iter(range(10_000))
        self.log = lambda: next(numbers)

    def observe(self):
        self.log()
        return super().observe()


class UnusedIterator(Robot):
    def setup(self):
        self.ids = itertools.count()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("kind", "attr_path"),
    [(Counting, "env.ids"), (GeneratorInAList, "env.sources[0]"), (IteratorInAClosure, "numbers")],
)
def test_an_export_says_which_iterators_it_has_advanced(kind, attr_path, tmp_path: Path):
    with pytest.warns(NotRestoredWarning, match=re.escape(f"the position of {attr_path}")):
        exploy.export(kind(), make_actor(4), tmp_path / "policy.onnx", strict=False)


def test_an_export_that_fails_says_it_too(tmp_path: Path):
    class Reading(Counting):
        def observe(self):
            return Robot.observe(self) + next(self.ids)

    with pytest.warns(NotRestoredWarning, match="env.ids"), pytest.raises(VerificationError):
        exploy.export(Reading(), make_actor(4), tmp_path / "policy.onnx", strict=False)


def test_an_iterator_that_nobody_advances_is_not_mentioned(tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exploy.export(UnusedIterator(), make_actor(4), tmp_path / "policy.onnx")


class ManyObjects(Robot):
    def setup(self):
        self.scene = [{"position": [float(number)]} for number in range(300)]


def test_the_limit_of_objects_is_said_where_it_is_hit(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(object_graph, "MAX_OBJECTS", 400)
    (finding,) = [
        item for item in check(ManyObjects(), make_actor(4)).findings if item.kind is FindingKind.NOT_RESTORED
    ]
    assert "More than 400 objects" in finding.what
    with pytest.warns(NotRestoredWarning, match="More than 400 objects"):
        exploy.export(ManyObjects(), make_actor(4), tmp_path / "policy.onnx", strict=False)


def test_fewer_objects_are_not_mentioned():
    assert not [item for item in check(ManyObjects(), make_actor(4)).findings if item.kind is FindingKind.NOT_RESTORED]


def test_many_values_that_change_hide_no_culprit():
    class Crowd(ManyObjects):
        def setup(self):
            super().setup()
            self.phase = 0.0

        def observe(self):
            return Robot.observe(self) + self.phase

        def move(self):
            super().move()
            self.phase += 0.01
            for item in self.scene:
                item["position"][0] += torch.pi

    (finding,) = check(Crowd(), make_actor(4)).errors
    assert finding.tensor == "env.phase"
