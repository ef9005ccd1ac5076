"""State outside of tensors is named: numpy clocks, enumerations as keys, iterators, globals, sub-step counters."""

import enum
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import NotRestoredWarning
from exploy.exporter.core.components import Connection
from tests.diagnosis.test_faults import Robot
from tests.support import library_terms
from tests.support.checking import check
from tests.support.environments import assert_agrees, make_actor
from tests.support.library_terms import advance
from tests.support.pasting import paste

PHASE = 0.0
GAIT = {"speed": 0.0}
LOG = {"calls": 0}
TABLE = torch.zeros(1, 4)


class Leg(enum.Enum):
    LEFT = 0
    RIGHT = 1


class NumpyScalar(Robot):
    def setup(self):
        self.time = np.float32(0.0)

    def observe(self):
        return super().observe() + self.time

    def move(self):
        super().move()
        self.time += np.float32(0.01)


class NumpyArrayBesideATensor(Robot):
    """The array changes with the tensor, as those of simulators do, but nothing reads it."""

    def setup(self):
        self.measured, self.time = np.zeros(3), torch.zeros(1, 1)

    def observe(self):
        return super().observe() + self.time

    def move(self):
        super().move()
        self.measured += 0.01
        self.time += 0.01


class NumpyClock(Robot):
    """MuJoCo's data.time and mj_data arrays are such clocks."""

    def setup(self):
        self.data = SimpleNamespace(time=np.zeros(1))

    def observe(self):
        return super().observe() + float(np.sin(self.data.time[0]))

    def move(self):
        super().move()
        self.data.time += 0.01


class EnumKeys(Robot):
    def setup(self):
        self.phases: dict[Leg, Any] = {Leg.LEFT: 0.0, Leg.RIGHT: 0.5}

    def observe(self):
        return super().observe() + self.phases[Leg.LEFT]

    def move(self):
        super().move()
        self.phases[Leg.LEFT] += 0.01


class EnumKeysOfTensors(EnumKeys):
    def setup(self):
        self.phases = {Leg.LEFT: torch.zeros(1), Leg.RIGHT: torch.ones(1)}


class GlobalNumber(Robot):
    def observe(self):
        return super().observe() + PHASE

    def move(self):
        global PHASE
        super().move()
        PHASE = PHASE + 0.01


class GlobalDictionary(Robot):
    """Read by a function, as the terms of Isaac Lab are."""

    def observe(self):
        return super().observe() + current_speed()

    def move(self):
        super().move()
        GAIT["speed"] += 0.01


class GlobalTensor(Robot):
    def observe(self):
        return super().observe() + TABLE

    def move(self):
        super().move()
        TABLE.add_(0.01)


class ClassAttribute(Robot):
    clock: Any = 0.0

    def observe(self):
        return super().observe() + type(self).clock

    def move(self):
        super().move()
        type(self).clock += 0.01


class AttributeOfABase(ClassAttribute):
    """The first assignment puts it from the base into the class itself."""

    def observe(self):
        return Robot.observe(self) + self.clock


class TermsOfALibrary(Robot):
    """Only a list leads to the function, and only the function to the globals of its module."""

    def setup(self):
        self.terms: list[Any] = [library_terms.speed]

    def observe(self):
        return super().observe() + sum(term() for term in self.terms)

    def move(self):
        super().move()
        advance()


class TermObjectOfALibrary(TermsOfALibrary):
    def setup(self):
        self.terms = [library_terms.PhaseTerm()]


class ModuleAsState(Robot):
    def observe(self):
        return super().observe() + library_terms.phase

    def move(self):
        super().move()
        library_terms.phase += 0.01


def current_speed():
    return GAIT["speed"]


class Cycle(Robot):
    def setup(self):
        self.gaits = itertools.cycle([0.0, 0.1, 0.3])

    def observe(self):
        return super().observe() + next(self.gaits)


class Generator(Robot):
    def setup(self):
        self.terms = {"gait": self.phases()}

    def phases(self):
        phase = 0.0
        while True:
            phase += 0.1
            yield phase

    def observe(self):
        return super().observe() + next(self.terms["gait"])


class SubStepCounter(Robot):
    def setup(self):
        self.sub_i = 0

    def apply_actions(self):
        self.targets[:] = self.targets * (1.0 + 0.1 * self.sub_i)

    def step(self, actions):
        self.process_actions(actions)
        for sub_step in range(self._decimation):
            self.sub_i = sub_step
            self.apply_actions()
            self._hooks[2](sub_step)
            self.move()
        self.sub_i = 0
        return self.observations_reset(), False


class ConnectionWrittenLate(Robot):
    """Observations are computed without the Connection."""

    def setup(self):
        self.command = torch.zeros(1, 4)
        twice = Connection("twice", lambda: self.vel.repeat(1, 2), lambda value: setattr(self, "command", value))
        self.context_manager().add_component(twice)

    def observe(self):
        return super().observe() + self.command

    def observations_reset(self):
        self._hooks[0]()
        return self.compute_observations()


class ConnectionNotWritten(ConnectionWrittenLate):
    def step(self, actions):
        self.process_actions(actions)
        for sub_step in range(self._decimation):
            self.apply_actions()
            self._hooks[2](sub_step)
            self.move()
        return self.observations_reset(), False


class ValuesThatNothingReads(Robot):
    """All of them change, and no result depends on them."""

    def setup(self):
        self.time = np.float32(0.0)
        self.clock = np.zeros(1)
        self.counts = {Leg.LEFT: 0}
        self.ids = itertools.count()
        self.sub_i = 0

    def apply_actions(self):
        self.sub_i += 1
        LOG["calls"] += 1

    def observe(self):
        self.last_id = next(self.ids)
        return super().observe()

    def move(self):
        super().move()
        self.time += np.float32(0.01)
        self.clock += 0.01
        self.counts[Leg.LEFT] += 1
        self.sub_i = 0


NAMED = {
    NumpyScalar: "env.time",
    EnumKeys: "env.phases[Leg.LEFT]",
    EnumKeysOfTensors: "env.phases[Leg.LEFT]",
    GlobalNumber: "test_python_culprits.PHASE",
    GlobalDictionary: "test_python_culprits.GAIT['speed']",
    GlobalTensor: "test_python_culprits.TABLE",
    ClassAttribute: "env.clock",
    AttributeOfABase: "env.clock",
    TermsOfALibrary: "library_terms.speeds['walk']",
    TermObjectOfALibrary: "library_terms.phase",
    ModuleAsState: "library_terms.phase",
}
NAMED_ONLY = {
    NumpyClock: (FindingKind.PYTHON_STATE, "env.data.time", "observe"),
    Cycle: (FindingKind.PYTHON_STATE, "env.gaits", "observe"),
    Generator: (FindingKind.PYTHON_STATE, "env.terms['gait']", "observe"),
    SubStepCounter: (FindingKind.PYTHON_STATE, "env.sub_i", "apply_actions"),
    ConnectionWrittenLate: (FindingKind.UNWRITTEN_CONNECTION, "twice", "step"),
    ConnectionNotWritten: (FindingKind.UNWRITTEN_CONNECTION, "twice", "step"),
}


@pytest.fixture(autouse=True)
def _globals_as_before():
    global PHASE
    yield
    PHASE, GAIT["speed"] = 0.0, 0.0
    library_terms.phase, library_terms.speeds["walk"] = 0.0, 0.0
    TABLE.zero_()
    ClassAttribute.clock = 0.0


@pytest.mark.matrix(3)
@pytest.mark.parametrize("kind", NAMED_ONLY)
def test_the_culprit_is_named_with_the_line_that_reads_it(kind):
    (finding,) = check(kind(), make_actor(4)).errors
    assert (finding.kind, finding.tensor) == NAMED_ONLY[kind][:2]
    assert finding.where.endswith(f"(in {NAMED_ONLY[kind][2]})")
    assert all(line.startswith("# ") for line in finding.suggestion.splitlines())


@pytest.mark.matrix
@pytest.mark.parametrize("kind", NAMED)
def test_the_culprit_is_named_and_its_lines_mend_it(kind, tmp_path: Path):
    env, actor = kind(), make_actor(4)
    diagnosis = check(env, actor)
    (finding,) = diagnosis.errors
    assert finding.tensor == NAMED[kind], diagnosis
    assert ("library_terms.py" if "OfALibrary" in kind.__name__ else "test_python_culprits.py") in finding.where
    paste(diagnosis, env, actor)
    mended = check(env, actor)
    assert mended.ok, mended
    assert_agrees(env, actor, tmp_path, steps=40)


def test_a_tensor_is_named_where_numpy_arrays_change_with_it():
    (finding,) = check(NumpyArrayBesideATensor(), make_actor(4)).errors
    assert finding.tensor == "env.time"


def test_values_that_nothing_reads_are_not_accused():
    diagnosis = check(ValuesThatNothingReads(), make_actor(4))
    assert diagnosis.ok and not diagnosis.suggestions, diagnosis


def test_an_export_restores_globals(tmp_path: Path):
    env = ValuesThatNothingReads()
    before = LOG["calls"]
    with pytest.warns(NotRestoredWarning, match="env.ids"):
        exploy.export(env, make_actor(4), tmp_path / "policy.onnx")
    assert LOG["calls"] == before


@pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")
def test_an_export_removes_class_attributes_that_it_has_added(tmp_path: Path):
    class Counting(Robot):
        calls = 0

        def observe(self):
            type(self).calls += 1
            return super().observe()

    class Own(Counting):
        pass

    exploy.export(Own(), make_actor(4), tmp_path / "policy.onnx", strict=False)
    assert "calls" not in vars(Own) and Counting.calls == 0


@pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")
def test_an_export_restores_globals_of_modules_that_only_objects_lead_to(tmp_path: Path):
    before = library_terms.calls
    exploy.export(TermsOfALibrary(), make_actor(4), tmp_path / "policy.onnx", strict=False)
    assert library_terms.calls == before
