"""Each kind of fault: an environment that has it, one that looks similar and has not, and the line that mends it."""

import collections
import functools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import exploy
from exploy.diagnosis.finding import Finding, Severity
from exploy.diagnosis.finding import FindingKind as Kind
from exploy.exporter.core.components import Input, Memory, Output
from tests.support.checking import check
from tests.support.environments import TestEnvironment, assert_agrees, make_actor
from tests.support.pasting import KINDS_THAT_PRINT_CODE, paste


class Robot(TestEnvironment):
    """A complete environment: two joints, moved by a simulator that makes new tensors."""

    num_observations = 4

    def __init__(self):
        super().__init__(reset_every=17)
        self.pos = torch.zeros(1, 2)
        self.vel = torch.ones(1, 2)
        self.setup()
        self.context_manager().add_components(self.components())

    def setup(self):
        """Make more state."""

    def components(self):
        return [
            Input("pos", lambda: self.pos),
            Input("vel", lambda: self.vel),
            Output("targets", lambda: self.targets),
        ]

    def observe(self):
        return torch.cat([self.pos, self.vel], -1)

    def move(self):
        self.pos = self.pos + 0.1 * self.vel + 0.01 * self.targets
        self.vel = 0.9 * self.vel + self.noise(self.vel)


# -- unregistered inputs --------------------------------------------------------------------------------------------


class ForgottenSensor(Robot):
    def setup(self):
        self.imu = torch.zeros(1, 4)

    def observe(self):
        return super().observe() + self.imu

    def move(self):
        super().move()
        self.imu[:] += 0.1


class GravityOfAMovingObject(ForgottenSensor):
    """The tensor belongs to an object that steps, but does not change."""

    def move(self):
        super(ForgottenSensor, self).move()
        self.imu = self.imu.clone()


class NestedTerms(Robot):
    def setup(self):
        term = SimpleNamespace(_scale=torch.ones(2))
        self.action_manager = SimpleNamespace(_terms={"joint_pos": term})

    def process_actions(self, actions):
        self.targets[:] = actions * self.action_manager._terms["joint_pos"]._scale

    def move(self):
        super().move()
        self.action_manager._terms["joint_pos"]._scale = torch.rand(2, generator=self._noise)


class ConstantTerms(NestedTerms):
    def move(self):
        Robot.move(self)


class ReplacedData(Robot):
    """The simulator hands out a new object with new tensors at each step."""

    def setup(self):
        self.data = SimpleNamespace(height=torch.zeros(1, 4), limits=torch.ones(1, 4))

    def observe(self):
        return super().observe() + self.data.height * self.data.limits

    def move(self):
        super().move()
        self.data = SimpleNamespace(height=self.data.height + 0.1, limits=self.data.limits.clone())


class ReplacedButEqualData(ReplacedData):
    def move(self):
        Robot.move(self)
        self.data = SimpleNamespace(height=self.data.height.clone(), limits=self.data.limits.clone())


class OneColumnForgotten(Robot):
    """One state tensor; every column but one is an Input of its own."""

    columns: tuple[int, ...] = (0, 1, 3)

    def setup(self):
        self.state = torch.zeros(1, 4)

    def components(self):
        columns = [Input(f"s{column}", functools.partial(self.column, column)) for column in self.columns]
        return [*columns, Output("targets", lambda: self.targets)]

    def column(self, number):
        return self.state[:, number : number + 1]

    def observe(self):
        return self.state * 2

    def move(self):
        self.state += 0.1 + self.noise(self.state)


class AllColumns(OneColumnForgotten):
    columns = (0, 1, 2, 3)


class NumpySensor(Robot):
    def setup(self):
        self.sensor = np.zeros((1, 4), np.float32)

    def observe(self):
        return super().observe() + torch.from_numpy(self.sensor)

    def move(self):
        super().move()
        self.sensor += 0.1


class NumpyConstant(NumpySensor):
    def move(self):
        Robot.move(self)


# -- missing memories -----------------------------------------------------------------------------------------------


class LastActionRebound(Robot):
    def setup(self):
        self.last_action = torch.zeros(1, 2)

    def observe(self):
        return torch.cat([self.pos, self.vel + self.last_action], -1)

    def process_actions(self, actions):
        super().process_actions(actions)
        self.last_action = actions.clone()


class LastActionInPlace(LastActionRebound):
    def process_actions(self, actions):
        self.targets[:] = actions
        self.last_action[:] = actions


class ScratchBuffer(Robot):
    """A buffer that is written before it is read has no memory."""

    def setup(self):
        self.buffer = torch.zeros(1, 4)

    def observe(self):
        self.buffer[:] = super().observe()
        return self.buffer * 2


class HistoryInADeque(Robot):
    def setup(self):
        self.history = collections.deque([torch.zeros(1, 4), torch.zeros(1, 4)], maxlen=2)

    def observe(self):
        self.history.append(super().observe())
        return self.history[0] + self.history[1]


class HistoryOverwritten(HistoryInADeque):
    def observe(self):
        self.history.append(Robot.observe(self))
        self.history.append(Robot.observe(self))
        return self.history[0] + self.history[1]


class Remembering(torch.nn.Module):
    """An actor with a state that only it knows of."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 2)
        self.hidden = torch.zeros(1, 2)

    def forward(self, obs):
        self.hidden = 0.5 * self.hidden + self.linear(obs)
        return self.hidden * 1.0


class RememberingInABuffer(Remembering):
    def __init__(self):
        super().__init__()
        del self.hidden
        self.register_buffer("hidden", torch.zeros(1, 2))


class RememberingFromNothing(Remembering):
    """There is no state before the first step."""

    def __init__(self):
        super().__init__()
        self.hidden = None  # type: ignore[assignment]

    def forward(self, obs):
        hidden = torch.zeros(1, 2) if self.hidden is None else self.hidden
        self.hidden = 0.5 * hidden + self.linear(obs)
        return self.hidden * 1.0


class FilterFromNothing(Robot):
    """Its filter starts with the first action."""

    filtered: torch.Tensor | None = None

    def process_actions(self, actions):
        self.filtered = actions.clone() if self.filtered is None else 0.5 * (self.filtered + actions)
        self.targets[:] = self.filtered


class Forgetting(Remembering):
    def forward(self, obs):
        self.hidden = self.linear(obs)
        return self.hidden * 1.0


# -- tensors that no attribute holds --------------------------------------------------------------------------------


class PutTogetherByNumpy(Robot):
    def setup(self):
        self.height, self.speed = np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32)

    def components(self):
        inputs = [
            Input("height", lambda: torch.from_numpy(self.height)),
            Input("speed", lambda: torch.from_numpy(self.speed)),
        ]
        return [*super().components(), *inputs]

    def observe(self):
        return super().observe() + torch.from_numpy(np.concatenate([self.height, self.speed], -1))

    def move(self):
        super().move()
        self.height += 0.1


class PutTogetherByTorch(PutTogetherByNumpy):
    def observe(self):
        return Robot.observe(self) + torch.cat([torch.from_numpy(self.height), torch.from_numpy(self.speed)], -1)


# -- changes that step() makes itself -------------------------------------------------------------------------------


class ScalesActionsInStep(Robot):
    def step(self, actions):
        return super().step(0.5 * actions)


class ClipsObservationsInStep(Robot):
    def step(self, actions):
        observations, done = super().step(actions)
        return observations.clamp(-0.2, 0.2), done


class ClipsFarFromAnyValue(Robot):
    def step(self, actions):
        observations, done = super().step(actions.clamp(-100, 100))
        return observations.clamp(-100, 100), done


# -- stale caches ---------------------------------------------------------------------------------------------------


class CacheBehindAFlag(Robot):
    def setup(self):
        self.robot = SimpleNamespace(body_vel=torch.zeros(1, 2), is_outdated=True)
        self.body_vel()

    def body_vel(self):
        if self.robot.is_outdated:
            self.robot.body_vel = self.vel * 2
            self.robot.is_outdated = False
        return self.robot.body_vel

    def observe(self):
        return torch.cat([self.pos, self.body_vel()], -1)

    def move(self):
        super().move()
        self.robot.is_outdated = True


class CacheFilledAnewEachTime(CacheBehindAFlag):
    def compute_observations(self):
        self.robot.is_outdated = True
        return self.observe()


class CacheByTime(Robot):
    def setup(self):
        self.time = 0.0
        self.cache = SimpleNamespace(data=torch.zeros(1, 2), timestamp=-1.0)
        self.body_vel()

    def body_vel(self):
        if self.cache.timestamp < self.time:
            self.cache.data = self.vel * 2
            self.cache.timestamp = self.time
        return self.cache.data

    def observe(self):
        return torch.cat([self.pos, self.body_vel()], -1)

    def move(self):
        super().move()
        self.time += 0.005


class CacheThatIsEmptied(Robot):
    def setup(self):
        self.cache = None
        self.body_vel()

    def body_vel(self):
        if self.cache is None:
            self.cache = self.vel * 2
        return self.cache

    def observe(self):
        return torch.cat([self.pos, self.body_vel()], -1)

    def move(self):
        super().move()
        self.cache = None


class ColdCacheBehindAFlag(CacheBehindAFlag):
    """Nothing has been computed yet when the export comes."""

    def setup(self):
        self.robot = SimpleNamespace(body_vel=torch.zeros(1, 2), is_outdated=True)


class ColdCacheByTime(CacheByTime):
    def setup(self):
        self.time = 0.0
        self.cache = SimpleNamespace(data=torch.zeros(1, 2), timestamp=-1.0)


class ColdCacheThatIsEmptied(CacheThatIsEmptied):
    def setup(self):
        self.cache = None


class CacheByFrame(Robot):
    """Refreshed where two numbers differ, so that it matters which of them is set back."""

    def setup(self):
        self.frame, self.cached_frame, self.cache = 0, -1, torch.zeros(1, 2)
        self.body_vel()

    def body_vel(self):
        if self.cached_frame != self.frame:
            self.cache = self.vel * 2
            self.cached_frame = self.frame
        return self.cache

    def observe(self):
        return torch.cat([self.pos, self.body_vel()], -1)

    def move(self):
        super().move()
        self.frame += 1


class CacheInADictionary(Robot):
    def setup(self):
        self.store: dict[str, torch.Tensor] = {}
        self.body_vel()

    def body_vel(self):
        if "vel" not in self.store:
            self.store["vel"] = self.vel * 2
        return self.store["vel"]

    def observe(self):
        return torch.cat([self.pos, self.body_vel()], -1)

    def move(self):
        super().move()
        self.store.clear()


class MadeOnFirstUse(Robot):
    """Looks like a cache, but is filled by the simulator: a sensor."""

    def setup(self):
        self.imu: torch.Tensor | None = None

    def observe(self):
        if self.imu is None:
            self.imu = torch.zeros(1, 4)
        return super().observe() + self.imu

    def prepare_export(self):
        self.observe()

    def move(self):
        super().move()
        assert self.imu is not None
        self.imu = self.imu + 0.1


# -- Python state ---------------------------------------------------------------------------------------------------


class PythonClock(Robot):
    def setup(self):
        self.phase = 0.0

    def observe(self):
        return super().observe() + self.phase

    def move(self):
        super().move()
        self.phase += 0.01


class PythonCounter(Robot):
    """A number that the pipeline itself changes."""

    def setup(self):
        self.calls = 0

    def observe(self):
        return super().observe() + self.calls

    def process_actions(self, actions):
        super().process_actions(actions)
        self.calls += 1


class ClassClock(Robot):
    """The number starts as an attribute of the class."""

    phase = 0.0

    def observe(self):
        return super().observe() + self.phase

    def move(self):
        super().move()
        self.phase += 0.01


class ClockForMath(PythonClock):
    """Python's own functions take no tensor, so no line alone can mend this."""

    def observe(self):
        return Robot.observe(self) + math.sin(self.phase)


class GaitThatComesBack(Robot):
    """A text that is, when the steps end, what it was when they began."""

    def setup(self):
        self.gait = "walk"

    def observe(self):
        return super().observe() * (2.0 if self.gait == "trot" else 1.0)

    def step(self, actions):
        result = super().step(actions)
        self.gait = "trot" if self._steps % 20 in (6, 7) else "walk"
        return result


class ConsistentLog(Robot):
    """Old values of one attribute alone would fail an assertion, which proves nothing."""

    def setup(self):
        self.count, self.log = 0, [0]

    def observe(self):
        assert self.count == self.log[-1]
        return super().observe()

    def move(self):
        super().move()
        self.count += 1
        self.log.append(self.count)


class CounterThatNothingReads(PythonCounter):
    def observe(self):
        return Robot.observe(self)


class SwitchedByTime(Robot):
    """A flag that decides which code runs; no line alone can mend that."""

    def setup(self):
        self.is_walking = False

    def observe(self):
        return super().observe() * (2.0 if self.is_walking else 1.0)

    def move(self):
        super().move()
        self.is_walking = True


# -- random numbers -------------------------------------------------------------------------------------------------


class Noisy(Robot):
    def setup(self):
        self.cfg = SimpleNamespace(add_noise=True)

    def observe(self):
        obs = super().observe()
        return obs + 0.1 * torch.randn_like(obs) if self.cfg.add_noise else obs


class NoiseThatNobodyReads(Robot):
    def observe(self):
        torch.randn(3)
        return super().observe()


class NoisyByNumpy(Robot):
    def observe(self):
        return super().observe() + float(np.random.standard_normal())


class SeededNumpy(Robot):
    def observe(self):
        return super().observe() + float(np.random.default_rng(0).standard_normal())


class NoisyByItsOwnGenerator(Robot):
    def setup(self):
        self.rng = random.Random(0)
        self.rng.gauss(0, 1)

    def observe(self):
        return super().observe() + self.rng.gauss(0, 1)


class NoisyByAnOldGenerator(Robot):
    def setup(self):
        self.rng = np.random.RandomState(0)

    def observe(self):
        return super().observe() + float(self.rng.normal())


class NoisyTargets(Robot):
    def process_actions(self, actions):
        self.targets[:] = actions + 0.1 * torch.rand(1, 2)


class NoisyTargetsByNumpy(Robot):
    def process_actions(self, actions):
        self.targets[:] = actions + float(np.random.standard_normal())


class Sampling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, obs):
        return torch.distributions.Normal(self.linear(obs), 0.1).sample()


class DropoutInTraining(torch.nn.Module):
    """Random in training mode, which an export is not made in."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5))

    def forward(self, obs):
        return self.net(obs)


# -- values, names, rates -------------------------------------------------------------------------------------------


class Logarithm(Robot):
    def observe(self):
        return torch.cat([self.pos, torch.log(self.vel - self.vel)], -1)


class ClampedLogarithm(Robot):
    def observe(self):
        return torch.cat([self.pos, torch.log((self.vel - self.vel).clamp(min=1e-6))], -1)


class BrokenSensor(Robot):
    def move(self):
        super().move()
        self.vel[0, 1] = math.nan


class OutOfRange(Robot):
    """A sensor that says infinity, to code that knows what to do with it."""

    def observe(self):
        return super().observe().clamp(-10, 10)

    def move(self):
        super().move()
        self.vel[0, 1] = math.inf


class TooFewNames(Robot):
    def empty_actor_observations(self):
        return torch.zeros(1, 4)

    def get_observation_names(self):
        return ["hip", "knee"]


class WrongDecimation(Robot):
    @property
    def decimation(self):
        return 3


class WrongDecimationWithoutHooks(WrongDecimation):
    """Its step does not call the adapter's methods, only what those call."""

    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        pass

    def apply_actions(self):
        self.drive()

    def drive(self):
        self.targets[:] = clipped(self.targets)

    def step(self, actions):
        self.process_actions(actions)
        for _ in range(4):
            self.drive()
            self.pos = clipped(self.pos + 0.1 * self.vel + 0.01 * self.targets)
            self.vel = 0.9 * self.vel + clipped(self.noise(self.vel))
        return self.observe(), False


class SharedHelper(WrongDecimationWithoutHooks):
    """Its step does what apply_actions() does without calling it; a helper is called more often."""

    @property
    def decimation(self):
        return 4

    def apply_actions(self):
        self.targets[:] = clipped(self.targets)

    def step(self, actions):
        self.process_actions(actions)
        for _ in range(4):
            self.targets[:] = clipped(self.targets)
            self.pos = clipped(self.pos + 0.1 * self.vel + 0.01 * self.targets)
            self.vel = 0.9 * self.vel + clipped(self.noise(self.vel))
        return self.observe(), False


def clipped(tensor):
    return tensor.clamp(-10.0, 10.0)


class Branching(Robot):
    def observe(self):
        return super().observe() if self.pos.sum() > 0 else 2 * super().observe()


class Choosing(Robot):
    def observe(self):
        return torch.where(self.pos.sum() > 0, super().observe(), 2 * super().observe())


# -- ports ----------------------------------------------------------------------------------------------------------


class Copying(Robot):
    def components(self):
        _, *others = super().components()
        return [Input("pos", lambda: self.pos.clone()), *others]


class Viewing(Robot):
    def components(self):
        _, *others = super().components()
        return [Input("pos", lambda: self.pos[:, :]), *others]


class WrongOutput(Robot):
    def setup(self):
        self.default_targets = torch.zeros(1, 2)

    def components(self):
        *others, _ = super().components()
        return [*others, Output("targets", lambda: self.default_targets)]


class ComputedOutput(Robot):
    """A fresh tensor at each call is fine for an Output."""

    def components(self):
        *others, _ = super().components()
        return [*others, Output("targets", lambda: self.targets * 2)]


class AllOutputsWrong(WrongOutput):
    """Two Outputs, neither of which is what the actions change."""

    def components(self):
        return [*super().components(), Output("efforts", lambda: self.default_targets * 2)]


class WrongOutputNextToASensor(WrongOutput):
    """The other Output changes, but not by the actions."""

    def components(self):
        return [*super().components(), Output("measured", lambda: self.pos * 2)]


class ZeroEfforts(Robot):
    """Position targets, with velocity and effort targets that are always zero, as some controllers need."""

    def setup(self):
        self.efforts = torch.zeros(1, 2)
        self.velocities = torch.ones(1, 2)

    def components(self):
        outputs = [Output("efforts", lambda: self.efforts), Output("velocities", lambda: self.velocities)]
        return [*super().components(), *outputs]

    def apply_actions(self):
        self.velocities[:] = 0.0


class ZeroEffortsAndDelayedTargets(ZeroEfforts):
    """The targets are the actions of the step before."""

    def components(self):
        return [*super().components(), Memory("last_actions", lambda: self.last_actions)]

    def setup(self):
        super().setup()
        self.last_actions = torch.zeros(1, 2)

    def process_actions(self, actions):
        self.targets[:] = self.last_actions
        self.last_actions[:] = actions


class Spectator(Robot):
    def setup(self):
        self.camera = torch.zeros(3)

    def components(self):
        return [*super().components(), Input("camera", lambda: self.camera)]


class WithoutOutput(Robot):
    def components(self):
        return super().components()[:2]


class UnreadMemory(Robot):
    def setup(self):
        self.log = torch.zeros(1, 2)

    def components(self):
        return [*super().components(), Memory("log", lambda: self.log)]

    def process_actions(self, actions):
        super().process_actions(actions)
        self.log[:] = actions


@dataclass(frozen=True)
class Fault:
    kind: Kind
    faulty: type[Robot]
    similar: type[Robot]
    tensor: str
    suggestion: str
    read_in: str = "observe"
    actor: Callable[[], torch.nn.Module] = lambda: make_actor(4)
    similar_actor: Callable[[], torch.nn.Module] = lambda: make_actor(4)

    def __str__(self):
        return f"{self.kind}: {self.faulty.__name__}"


def line(kind: str, name: str, path: str) -> str:
    return f'{kind}(name="{name}", get_from_env_cb=lambda: {path})'


MENDED_BY_A_LINE = [
    Fault(
        Kind.UNREGISTERED_INPUT, ForgottenSensor, GravityOfAMovingObject, "env.imu",
        line("Input", "imu", "env.imu"),
    ),
    Fault(
        Kind.UNREGISTERED_INPUT, NestedTerms, ConstantTerms, "env.action_manager._terms['joint_pos']._scale",
        line("Input", "scale", "env.action_manager._terms['joint_pos']._scale"), "process_actions",
    ),
    Fault(
        Kind.UNREGISTERED_INPUT, ReplacedData, ReplacedButEqualData, "env.data.height",
        line("Input", "height", "env.data.height"),
    ),
    Fault(
        Kind.UNREGISTERED_INPUT, OneColumnForgotten, AllColumns, "env.state[:, 2:3]",
        line("Input", "state_2_3", "env.state[:, 2:3]"),
    ),
    Fault(
        Kind.UNREGISTERED_INPUT, NumpySensor, NumpyConstant, "env.sensor",
        line("Input", "sensor", "torch.from_numpy(env.sensor)"),
    ),
    Fault(
        Kind.UNREGISTERED_INPUT, MadeOnFirstUse, Robot, "env.imu",
        line("Input", "imu", "env.imu"),
    ),
    Fault(
        Kind.MISSING_MEMORY, LastActionRebound, ScratchBuffer, "env.last_action",
        line("Memory", "last_action", "env.last_action"),
    ),
    Fault(
        Kind.MISSING_MEMORY, LastActionInPlace, ScratchBuffer, "env.last_action",
        line("Memory", "last_action", "env.last_action"),
    ),
    Fault(
        Kind.MISSING_MEMORY, HistoryInADeque, HistoryOverwritten, "env.history[1]",
        line("Memory", "history_1", "env.history[1]"),
    ),
    Fault(
        Kind.MISSING_MEMORY, Robot, Robot, "actor.hidden",
        line("Memory", "hidden", "actor.hidden"), "forward", Remembering, Forgetting,
    ),
    Fault(
        Kind.MISSING_MEMORY, Robot, Robot, "actor.hidden",
        line("Memory", "hidden", "actor.hidden"), "forward", RememberingInABuffer, Forgetting,
    ),
    Fault(
        Kind.STALE_CACHE, CacheBehindAFlag, CacheFilledAnewEachTime, "env.robot.body_vel",
        'Connection(name="refresh_is_outdated", getter=lambda: True, '
        'setter=lambda value: setattr(env.robot, "is_outdated", value))',
    ),
    Fault(
        Kind.STALE_CACHE, CacheByTime, MadeOnFirstUse, "env.cache.data",
        'Connection(name="refresh_timestamp", getter=lambda: -1.0, '
        'setter=lambda value: setattr(env.cache, "timestamp", value))',
    ),
    Fault(
        Kind.STALE_CACHE, CacheThatIsEmptied, MadeOnFirstUse, "env.cache",
        'Connection(name="refresh_cache", getter=lambda: None, setter=lambda value: setattr(env, "cache", value))',
    ),
    Fault(
        Kind.STALE_CACHE, ColdCacheBehindAFlag, CacheFilledAnewEachTime, "env.robot.body_vel",
        'Connection(name="refresh_is_outdated", getter=lambda: True, '
        'setter=lambda value: setattr(env.robot, "is_outdated", value))',
    ),
    Fault(
        Kind.STALE_CACHE, ColdCacheByTime, CacheFilledAnewEachTime, "env.cache.data",
        'Connection(name="refresh_timestamp", getter=lambda: -1.0, '
        'setter=lambda value: setattr(env.cache, "timestamp", value))',
    ),
    Fault(
        Kind.STALE_CACHE, ColdCacheThatIsEmptied, CacheFilledAnewEachTime, "env.cache",
        'Connection(name="refresh_cache", getter=lambda: None, setter=lambda value: setattr(env, "cache", value))',
    ),
    Fault(
        Kind.STALE_CACHE, CacheByFrame, CacheFilledAnewEachTime, "env.cache",
        'Connection(name="refresh_cached_frame", getter=lambda: -1, '
        'setter=lambda value: setattr(env, "cached_frame", value))',
    ),
    Fault(
        Kind.STALE_CACHE, CacheInADictionary, CacheFilledAnewEachTime, "env.store['vel']",
        'Connection(name="refresh_vel", getter=lambda: None, setter=lambda _: env.store.pop(\'vel\', None))',
    ),
    Fault(
        Kind.MISSING_MEMORY, Robot, Robot, "actor.hidden",
        "actor(env.empty_actor_observations())\n" + line("Memory", "hidden", "actor.hidden"),
        "forward", RememberingFromNothing, Forgetting,
    ),
    Fault(
        Kind.MISSING_MEMORY, FilterFromNothing, Robot, "env.filtered",
        "env.process_actions(env.empty_actions())\n" + line("Memory", "filtered", "env.filtered"), "process_actions",
    ),
    Fault(
        Kind.PYTHON_STATE, ClassClock, ConsistentLog, "env.phase",
        "env.phase = torch.tensor(env.phase)\n" + line("Input", "phase", "env.phase"),
    ),
    Fault(
        Kind.WRONG_DECIMATION, WrongDecimationWithoutHooks, SharedHelper, "env.decimation",
        "type(env).decimation = property(lambda self: 4)", "decimation",
    ),
    Fault(
        Kind.PYTHON_STATE, PythonClock, CounterThatNothingReads, "env.phase",
        "env.phase = torch.tensor(env.phase)\n" + line("Input", "phase", "env.phase"),
    ),
    Fault(
        Kind.PYTHON_STATE, PythonCounter, CounterThatNothingReads, "env.calls",
        "env.calls = torch.tensor(env.calls)\n" + line("Memory", "calls", "env.calls"),
    ),
    Fault(Kind.RANDOM, Noisy, NoiseThatNobodyReads, "obs", "env.cfg.add_noise = False"),
    Fault(
        Kind.WRONG_NAMES, TooFewNames, Robot, "env.get_observation_names()",
        'env.get_observation_names = lambda: [f"obs_{i}" for i in range(4)]', "get_observation_names",
    ),
    Fault(
        Kind.WRONG_DECIMATION, WrongDecimation, Robot, "env.decimation",
        "type(env).decimation = property(lambda self: 4)", "decimation",
    ),
    Fault(Kind.DETACHED, Copying, Viewing, "pos", line("Input", "pos", "env.pos"), "<lambda>"),
]  # fmt: skip
MENDED_BY_HAND = [
    Fault(
        Kind.CONSTANT_OUTPUT, WrongOutput, ComputedOutput, "targets",
        "# make the callback of Output('targets') return the tensor that apply_actions() writes; "
        "the actions change env.targets",
        "<lambda>",
    ),
    Fault(
        Kind.CONSTANT_OUTPUT, AllOutputsWrong, ZeroEfforts, "targets",
        "# make the callback of Output('targets') return the tensor that apply_actions() writes",
        "<lambda>",
    ),
    Fault(
        Kind.CONSTANT_OUTPUT, WrongOutputNextToASensor, ZeroEffortsAndDelayedTargets, "targets",
        "# make the callback of Output('targets') return the tensor that apply_actions() writes",
        "<lambda>",
    ),
    Fault(
        Kind.PYTHON_STATE, SwitchedByTime, CounterThatNothingReads, "env.is_walking",
        "# keep env.is_walking in a tensor",
    ),
    Fault(Kind.PYTHON_STATE, ClockForMath, CounterThatNothingReads, "env.phase", "# keep env.phase in a tensor"),
    Fault(Kind.PYTHON_STATE, GaitThatComesBack, ConsistentLog, "env.gait", "# keep env.gait in a tensor"),
    Fault(Kind.RANDOM, NoisyByItsOwnGenerator, SeededNumpy, "obs", "# disable noise", "compute_observations"),
    Fault(Kind.RANDOM, NoisyByAnOldGenerator, SeededNumpy, "obs", "# disable noise", "compute_observations"),
    Fault(Kind.RANDOM, NoisyTargets, Robot, "env.process_actions()", "# disable action noise", "process_actions"),
    Fault(Kind.RANDOM, NoisyTargetsByNumpy, Robot, "targets", "# disable noise", "process_actions"),
    Fault(Kind.RANDOM, NoisyByNumpy, SeededNumpy, "obs", "# disable noise", "compute_observations"),
    Fault(
        Kind.RANDOM, Robot, Robot, "actor", "# export the deterministic form of the policy, or pass allow_random=True",
        "forward", Sampling, DropoutInTraining,
    ),
    Fault(Kind.NOT_FINITE, Logarithm, ClampedLogarithm, "obs", "# guard the operation that makes it"),
    Fault(Kind.NOT_FINITE, BrokenSensor, OutOfRange, "vel", "# keep vel finite in the simulator", ""),
    Fault(
        Kind.UNEXPLAINED, PutTogetherByNumpy, PutTogetherByTorch, "obs",
        "# compute the tensor that is read at",
    ),
    Fault(
        Kind.WRITTEN_BY_STEP, ScalesActionsInStep, ClipsFarFromAnyValue, "actions",
        "# change the actions in process_actions()", "step",
    ),
    Fault(
        Kind.WRITTEN_BY_STEP, ClipsObservationsInStep, ClipsFarFromAnyValue, "obs",
        "# change the observations in compute_observations()", "step",
    ),
    Fault(Kind.CAPTURE_FAILED, Branching, Choosing, "env", "# Use torch operations instead, for example torch.where()"),
]  # fmt: skip


def the_finding(diagnosis: exploy.Diagnosis, kind: Kind, tensor: str) -> Finding:
    """The one finding of a kind about a tensor."""
    findings = [item for item in diagnosis.findings if item.kind is kind and item.tensor == tensor]
    assert len(findings) == 1, diagnosis
    return findings[0]


@pytest.mark.matrix(3)
@pytest.mark.parametrize("fault", MENDED_BY_HAND, ids=str)
def test_a_fault_is_found_with_its_name_its_place_and_what_to_do(fault):
    finding = the_finding(check(fault.faulty(), fault.actor()), fault.kind, fault.tensor)
    assert_told(fault, finding)
    assert finding.suggestion.startswith(fault.suggestion)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("fault", MENDED_BY_A_LINE, ids=str)
def test_a_fault_is_found_and_pasting_the_suggested_lines_mends_it(fault):
    env, actor = own_class(fault.faulty), fault.actor()
    diagnosis = check(env, actor)
    finding = the_finding(diagnosis, fault.kind, fault.tensor)
    assert_told(fault, finding)
    assert finding.suggestion == fault.suggestion
    paste(diagnosis, env, actor)
    mended = check(env, actor)
    assert mended.ok, mended


@pytest.mark.matrix(2)
@pytest.mark.parametrize("fault", MENDED_BY_A_LINE, ids=str)
def test_the_file_of_a_mended_environment_agrees(fault, tmp_path: Path):
    env, actor = own_class(fault.faulty), fault.actor()
    paste(check(env, actor), env, actor)
    assert_agrees(env, actor, tmp_path, steps=40)


def own_class(faulty):
    """An environment with a class of its own, since a pasted line may change that."""
    return type("Mended", (faulty,), {})()


def test_the_code_of_every_kind_of_finding_is_pasted_by_a_test():
    """A kind that may print code is in MENDED_BY_A_LINE, or it is the Output of the test below."""
    assert {fault.kind for fault in MENDED_BY_A_LINE} | {Kind.UNUSED} == KINDS_THAT_PRINT_CODE


def test_pasting_the_output_that_is_suggested_for_unused_actions_mends_it():
    env, actor = WithoutOutput(), make_actor(4)
    finding = the_finding(check(env, actor), Kind.UNUSED, "actions")
    env.context_manager().add_component(eval(finding.suggestion, {"env": env, "Output": Output}))
    assert not [item for item in check(env, actor).findings if item.kind is Kind.UNUSED]


def assert_told(fault: Fault, finding: Finding) -> None:
    assert finding.severity is fault.kind.usual_severity
    if fault.read_in:
        assert f"(in {fault.read_in})" in finding.where


@functools.cache
def diagnosis_of(env: type[Robot], actor: Callable[[], torch.nn.Module]) -> exploy.Diagnosis:
    """The diagnosis of an environment that several faults are compared with."""
    return check(env(), actor())


@pytest.mark.matrix(4)
@pytest.mark.parametrize("fault", MENDED_BY_A_LINE + MENDED_BY_HAND, ids=str)
def test_an_environment_that_only_looks_similar_is_not_blamed(fault):
    diagnosis = diagnosis_of(fault.similar, fault.similar_actor)
    guilty = [item for item in diagnosis.findings if item.kind is fault.kind and item.severity is not Severity.INFO]
    assert not guilty, diagnosis
    assert diagnosis.ok or fault.similar is MadeOnFirstUse, diagnosis


@pytest.mark.matrix(3)
@pytest.mark.parametrize(
    ("env", "kind", "tensor", "suggestion"),
    [
        (Spectator, Kind.UNUSED, "camera", "# remove Input('camera')"),
        (UnreadMemory, Kind.UNUSED, "memory.log.in", "# remove Memory('log')"),
        (WithoutOutput, Kind.UNUSED, "actions", line("Output", "targets", "env.targets")),
        (ConstantTerms, Kind.FROZEN, "env.action_manager._terms['joint_pos']._scale", ""),
        (Robot, Kind.CARRIED, "env.targets", ""),
        (OutOfRange, Kind.NOT_FINITE, "vel", ""),
    ],
)
def test_what_is_only_good_to_know_is_info(env, kind, tensor, suggestion):
    finding = the_finding(check(env(), make_actor(4)), kind, tensor)
    assert finding.severity is Severity.INFO
    assert finding.suggestion.startswith(suggestion)


def test_nothing_is_carried_where_sub_steps_read_nothing_of_the_policy_step():
    kinds = {finding.kind for finding in check(WithoutOutput(), make_actor(4)).findings}
    assert kinds == {Kind.UNUSED}


def test_a_complete_environment_has_neither_unused_nor_frozen_state():
    kinds = {finding.kind for finding in check(Robot(), make_actor(4)).findings}
    assert kinds == {Kind.CARRIED}


def test_a_random_actor_is_allowed_where_the_user_says_so():
    diagnosis = check(Robot(), Sampling(), allow_random=True)
    assert diagnosis.ok, diagnosis
    assert [item.tensor for item in diagnosis.findings if item.kind is Kind.RANDOM] == ["actor"]


# -- constant outputs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [ZeroEfforts, ZeroEffortsAndDelayedTargets])
def test_a_constant_target_next_to_targets_that_follow_the_actions_is_info(env, tmp_path: Path):
    env, actor = env(), make_actor(4)
    diagnosis = check(env, actor)
    assert diagnosis.ok and diagnosis.suggestions == (), diagnosis
    for name in ("efforts", "velocities"):
        finding = the_finding(diagnosis, Kind.CONSTANT_OUTPUT, name)
        assert finding.severity is Severity.INFO
        assert finding.suggestion.startswith(f"# if Output('{name}') is meant to be constant, declare its tensor with")
    session = assert_agrees(env, actor, tmp_path, steps=40)
    assert not session.get_output_value("efforts").any() and session.get_output_value("targets").any()


@pytest.mark.parametrize("kind", [ZeroEfforts, ZeroEffortsAndDelayedTargets])
def test_declaring_the_tensor_of_a_constant_output_quiets_it(kind):
    env = kind()
    env.context_manager().add_constant("no_efforts", lambda: env.efforts)
    env.context_manager().add_constant("no_velocities", lambda: env.velocities)
    kinds = {finding.kind for finding in check(env, make_actor(4)).findings}
    assert kinds == {Kind.CARRIED}


def test_declaring_the_tensor_that_a_constant_output_is_computed_from_quiets_it():
    class Scaled(ZeroEfforts):
        def components(self):
            return [*Robot.components(self), Output("efforts", lambda: self.efforts * 2)]

    env = Scaled()
    env.context_manager().add_constant("no_efforts", lambda: env.efforts)
    kinds = {finding.kind for finding in check(env, make_actor(4)).findings}
    assert kinds == {Kind.CARRIED}


def test_declaring_one_constant_output_does_not_quiet_another():
    env = ZeroEfforts()
    env.context_manager().add_constant("no_efforts", lambda: env.efforts)
    findings = check(env, make_actor(4)).findings
    assert [item.tensor for item in findings if item.kind is Kind.CONSTANT_OUTPUT] == ["velocities"]


def test_a_constant_that_is_neither_read_nor_an_output_is_named():
    env = ZeroEfforts()
    env.context_manager().add_constant("stray", lambda: env.noise(env.pos))
    assert the_finding(check(env, make_actor(4)), Kind.UNUSED, "stray").severity is Severity.INFO


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [WrongOutput, AllOutputsWrong, WrongOutputNextToASensor, ZeroEfforts])
def test_no_suggestion_gives_an_output_another_tensor(kind):
    """Pasting everything, comments included, leaves what the robot gets as it was."""
    env, actor = kind(), make_actor(4)
    diagnosis = check(env, actor)
    constant = [item for item in diagnosis.findings if item.kind is Kind.CONSTANT_OUTPUT]
    assert constant and all(item.suggestion.startswith("# ") and "\n" not in item.suggestion for item in constant)
    before = {item.output_name: item.get_from_env_cb for item in env.context_manager().get_output_components()}
    paste(diagnosis, env, actor)
    assert before == {item.output_name: item.get_from_env_cb for item in env.context_manager().get_output_components()}


def test_actions_that_no_output_depends_on_are_named_although_an_output_changes():
    finding = the_finding(check(WrongOutputNextToASensor(), make_actor(4)), Kind.UNUSED, "actions")
    assert finding.severity is Severity.INFO and "env.targets" in finding.suggestion
