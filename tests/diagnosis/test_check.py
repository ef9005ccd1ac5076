"""check_environment() never fails on what it is given, changes nothing but by stepping, and sees far enough."""

import collections
import contextvars
import enum
import gc
import random
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import exploy
from exploy.demo.cart_pole import CartPole
from exploy.demo.exportable import ExportableCartPole
from exploy.demo.policy import load_trained_actor
from exploy.diagnosis.finding import FindingKind, Severity
from exploy.errors import InvalidEnvironmentError
from exploy.exporter.core.actor import add_actor_memory
from exploy.exporter.core.components import Group, Input, Memory, Output
from exploy.live import object_graph
from tests.support import tutorial
from tests.support.environments import TestEnvironment, assert_agrees, make_actor
from tests.support.pasting import paste


class Simple(TestEnvironment):
    num_observations = 2

    def __init__(self, **options):
        super().__init__(**options)
        self.value = torch.zeros(1, 2)
        self.context_manager().add_components(
            [Input("value", lambda: self.value), Output("targets", lambda: self.targets)]
        )

    def observe(self):
        return self.value * 2

    def move(self):
        self.value = self.value + 0.1


def check(env, actor=None, **options):
    return exploy.check_environment(env, make_actor(2) if actor is None else actor, **{"lower": False, **options})


def kinds(diagnosis):
    return {finding.kind for finding in diagnosis.findings}


# -- complete environments ------------------------------------------------------------------------------------------


def test_the_demo_is_fine():
    diagnosis = check(ExportableCartPole(CartPole(seed=1)), load_trained_actor())
    assert diagnosis.ok, diagnosis


def complete(environment=tutorial.Environment, adapter=tutorial.ExportableEnv):
    torch.manual_seed(0)
    env = adapter(environment(data_source=tutorial.DataSource()))
    source, manager = env.env.data_source, env.context_manager()
    manager.add_component(Input("foo", lambda: source.foo))
    manager.add_component(Output("output", lambda: env.env._output))
    manager.add_component(Memory("actions", lambda: env.env._actions))
    manager.add_group(Group("bar_baz", [Input("bar", lambda: source.bar), Input("baz", lambda: source.baz)]))
    return env


def test_the_tutorials_complete_environment_is_fine():
    env = complete()
    assert check(env, tutorial.Actor(env.env.num_obs, env.env.num_act)).ok


def test_the_tutorials_environment_with_a_module_is_fine():
    env = complete(tutorial.EnvironmentWithTorchModule)
    env.context_manager().add_module(env.env.module)
    assert check(env, tutorial.Actor(env.env.num_obs, env.env.num_act)).ok


def test_the_tutorials_recurrent_actor_is_fine_once_its_state_is_registered():
    env = complete()
    actor = tutorial.RNNActor(env.env.num_obs, env.env.num_act)
    actor(env.empty_actor_observations())
    add_actor_memory(env.context_manager(), actor.get_state)
    diagnosis = check(env, actor)
    assert diagnosis.ok, diagnosis


def test_the_tutorials_recurrent_actor_is_named_before_it_has_run():
    env = complete()
    actor = tutorial.RNNActor(env.env.num_obs, env.env.num_act)
    diagnosis = check(env, actor)
    assert {item.kind for item in diagnosis.errors} == {FindingKind.MISSING_MEMORY}
    assert diagnosis.suggestions == (
        "actor(env.empty_actor_observations())\nadd_actor_memory(env.context_manager(), actor.get_state)",
    )
    paste(diagnosis, env, actor)
    assert check(env, actor).ok


def test_the_tutorials_recurrent_actor_is_named_where_its_state_is_not_registered():
    env = complete()
    actor = tutorial.RNNActor(env.env.num_obs, env.env.num_act)
    actor(env.empty_actor_observations())
    errors = check(env, actor).errors
    assert {item.kind for item in errors} == {FindingKind.MISSING_MEMORY}
    assert all(item.tensor.startswith("actor.") for item in errors)
    assert {item.suggestion for item in errors} == {"add_actor_memory(env.context_manager(), actor.get_state)"}


def test_a_recurrent_actor_that_forgets_everything_at_a_reset_is_fine():
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell = torch.nn.GRUCell(2, 2)
            self.hidden: torch.Tensor | None = None

        def forward(self, obs):
            self.hidden = self.cell(obs, self.hidden)
            return self.hidden * 1.0

        def get_state(self):
            return None if self.hidden is None else (self.hidden,)

        def reset(self, dones):
            self.hidden = None

    env, actor = Simple(reset_every=10), Recurrent()
    actor(env.empty_actor_observations())
    add_actor_memory(env.context_manager(), actor.get_state)
    diagnosis = check(env, actor)
    assert diagnosis.ok, diagnosis


def test_a_constant_that_is_made_on_first_use_is_no_cache():
    class Lazy(Forgotten):
        def __init__(self):
            super().__init__()
            self.scale: torch.Tensor | None = None
            self.last = torch.zeros(1, 2)

        def observe(self):
            if self.scale is None:
                self.scale = torch.full((2,), 2.0)
            return self.value * self.scale + self.last

        def process_actions(self, actions):
            super().process_actions(actions)
            self.last = actions.clone()

    assert [item.tensor for item in check(Lazy()).errors] == ["env.last"]


def test_state_that_cannot_be_taken_back_leads_to_no_false_accusation():
    class Elsewhere(Simple):
        def observe(self):
            return super().observe() + STATE_ELSEWHERE["last"]

        def process_actions(self, actions):
            super().process_actions(actions)
            STATE_ELSEWHERE["last"] = actions.clone()

    env = Elsewhere()
    env.context_manager().add_component(Memory("last", lambda: STATE_ELSEWHERE["last"]))
    assert not kinds(check(env)) & {FindingKind.RANDOM, FindingKind.PYTHON_STATE}


STATE_ELSEWHERE = {"last": torch.zeros(1, 2)}


def test_a_choice_among_names_is_python_state_and_its_class_is_left_alone():
    class Gait(enum.Enum):
        WALK = 1
        TROT = 2

    class Choosing(Simple):
        def __init__(self):
            super().__init__()
            self.gait = Gait.WALK

        def observe(self):
            return super().observe() * self.gait.value

        def move(self):
            super().move()
            self.gait = Gait.TROT

    (finding,) = check(Choosing()).errors
    assert (finding.kind, finding.tensor) == (FindingKind.PYTHON_STATE, "env.gait")
    assert finding.suggestion.startswith("# keep env.gait in a tensor")
    assert Gait.WALK.value == 1


def test_a_late_sensor_in_a_deque_is_no_cache():
    class Delayed(Simple):
        def __init__(self):
            super().__init__()
            self.frames = collections.deque([torch.zeros(1, 2) for _ in range(3)], maxlen=3)

        def observe(self):
            return super().observe() + self.frames[0]

        def move(self):
            super().move()
            self.frames.append(self.frames[-1] + 0.1)

    (finding,) = check(Delayed()).errors
    assert (finding.kind, finding.tensor) == (FindingKind.UNREGISTERED_INPUT, "env.frames[0]")


# -- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, -3])
def test_a_check_needs_steps(steps):
    with pytest.raises(InvalidEnvironmentError, match="steps of 1 or more"):
        check(Simple(), steps=steps)


@pytest.mark.parametrize("env", [None, 3, object()])
def test_something_else_than_an_environment_is_a_finding(env):
    assert kinds(check(env)) == {FindingKind.CAPTURE_FAILED}


def test_something_else_than_an_actor_is_a_finding():
    diagnosis = check(Simple(), "policy")
    assert [item.what for item in diagnosis.findings] == ["An actor must be a torch.nn.Module, got str"]
    assert diagnosis.suggestions == ("# Wrap a plain function in a module with a forward(obs) method.",)


def test_an_actor_of_another_width_is_a_finding():
    assert FindingKind.CAPTURE_FAILED in kinds(check(Simple(), make_actor(5)))


def test_an_environment_that_fails_in_a_step_is_a_finding_with_its_line():
    class Broken(Simple):
        def move(self):
            raise RuntimeError("the simulator is gone")

    (finding,) = check(Broken()).errors
    assert (finding.kind, finding.tensor) == (FindingKind.CANNOT_STEP, "env.step()")
    assert "the simulator is gone" in finding.what and "(in move)" in finding.where


def test_what_was_seen_before_a_failure_is_told():
    class Late(Simple):
        def __init__(self):
            super().__init__()
            self.imu = torch.zeros(1, 2)

        def observe(self):
            return super().observe() + self.imu

        def move(self):
            super().move()
            self.imu = self.imu + 1
            if self._steps == 3:
                raise RuntimeError("out of battery")

    diagnosis = check(Late())
    assert kinds(diagnosis) >= {FindingKind.CANNOT_STEP, FindingKind.UNREGISTERED_INPUT}
    assert diagnosis.steps == 3


def test_a_step_that_returns_something_else_is_a_finding():
    class Five(Simple):
        def step(self, actions):
            return (*super().step(actions), False, {}, 0)

    (finding,) = check(Five()).errors
    assert finding.kind is FindingKind.CANNOT_STEP
    assert "whether the environment was reset" in finding.what


@pytest.mark.parametrize("decimation", [0, 4.0, True])
def test_a_decimation_that_is_none_is_a_finding(decimation):
    class Odd(Simple):
        @property
        def decimation(self):
            return decimation

    (finding,) = check(Odd()).errors
    assert (finding.kind, finding.tensor) == (FindingKind.WRONG_DECIMATION, "env.decimation")


@pytest.mark.parametrize("method", ["get_observation_names", "empty_actor_observations", "observations_reset"])
def test_whatever_method_fails_that_is_a_finding(method):
    class Failing(Simple):
        pass

    def fail(self):
        raise KeyError("no such thing")

    setattr(Failing, method, fail)
    assert any("no such thing" in finding.what for finding in check(Failing()).errors)


def test_a_decimation_that_fails_is_a_finding():
    class Failing(Simple):
        @property
        def decimation(self):
            raise KeyError("no such thing")

    assert any("no such thing" in finding.what for finding in check(Failing()).errors)


def test_values_that_are_not_finite_are_found_in_any_precision():
    class Halved(Simple):
        def observe(self):
            return torch.log(self.value.bfloat16()).float()

    (finding,) = check(Halved()).errors
    assert (finding.kind, finding.tensor) == (FindingKind.NOT_FINITE, "obs")


def test_metadata_that_cannot_be_stored_is_a_finding():
    class Odd(Simple):
        def metadata(self):
            return {"gains": torch.ones(2)}

    (finding,) = check(Odd()).errors
    assert (finding.kind, finding.tensor) == (FindingKind.CAPTURE_FAILED, "env.metadata()")


def test_a_preparation_that_fails_is_a_finding():
    class Unprepared(Simple):
        def prepare_export(self):
            raise FileNotFoundError("no checkpoint")

    (finding,) = check(Unprepared()).findings
    assert finding.kind is FindingKind.CAPTURE_FAILED
    assert finding.what == "FileNotFoundError: no checkpoint"


class Forgotten(Simple):
    """Its imu is not registered, and goes back to zero at a reset."""

    def __init__(self, **options):
        super().__init__(**options)
        self.imu = torch.zeros(1, 2)

    def observe(self):
        return super().observe() + self.imu

    def move(self):
        super().move()
        self.imu = self.imu + 1

    def restart(self):
        self.imu = torch.zeros(1, 2)


def test_an_environment_that_resets_at_once_is_seen_through_its_hooks():
    assert [item.tensor for item in check(Forgotten(reset_every=1)).errors] == ["env.imu"]


def test_an_environment_that_resets_at_once_without_hooks_is_seen_through_its_functions():
    class WithoutHooks(Forgotten):
        def register_evaluation_hooks(self, update, reset, evaluate_substep):
            pass

    assert [item.tensor for item in check(WithoutHooks(reset_every=1)).errors] == ["env.imu"]


def test_an_environment_that_resets_at_once_and_shows_nothing_cannot_be_vouched_for():
    class Opaque(Forgotten):
        """Its step shares no function with the stages."""

        def register_evaluation_hooks(self, update, reset, evaluate_substep):
            pass

        def step(self, actions):
            self.targets[:] = actions
            for _ in range(self._decimation):
                self.move()
            self._steps += 1
            done = self._steps % self._reset_every == 0
            if done:
                self.restart()
            return self.value + self.imu, done

    diagnosis = check(Opaque(reset_every=1))
    assert FindingKind.NOT_OBSERVED in kinds(diagnosis) and not diagnosis.ok
    assert not [item for item in check(Opaque(reset_every=2)).findings if item.kind is FindingKind.NOT_OBSERVED]


# -- object graphs --------------------------------------------------------------------------------------------------


def test_cycles_and_depth_are_no_obstacle():
    class Deep(Forgotten):
        def __init__(self):
            super().__init__()
            self.me = self
            node = self.chain = SimpleNamespace()
            for _ in range(500):
                node.next = SimpleNamespace(back=node)
                node = node.next

    assert [item.tensor for item in check(Deep()).errors] == ["env.imu"]


def test_a_huge_object_graph_is_walked_in_bounds(monkeypatch):
    monkeypatch.setattr(object_graph, "MAX_OBJECTS", 10_000)

    class Huge(Forgotten):
        def __init__(self):
            super().__init__()
            self.many = [[SimpleNamespace(index=index) for index in range(100)] for _ in range(110)]

    assert [item.tensor for item in check(Huge()).errors] == ["env.imu"]


def test_a_tensor_that_no_path_leads_to_is_reported_by_where_it_is_read():
    hidden = torch.zeros(1, 2)

    class Closed(Simple):
        def observe(self):
            return super().observe() + hidden

        def move(self):
            super().move()
            hidden.add_(1)

    (finding,) = check(Closed()).errors
    assert finding.kind is FindingKind.UNREGISTERED_INPUT
    assert finding.tensor == "a tensor that is not stored in an attribute"
    assert "test_check.py" in finding.where and "(in observe)" in finding.where
    assert finding.suggestion.startswith("# store the tensor that is read at")


def test_properties_and_attribute_access_are_not_called():
    class Sensitive:
        def __init__(self):
            self.imu = torch.zeros(1, 2)

        @property
        def temperature(self):
            raise AssertionError("a property was called")

        def __getattr__(self, name):
            raise AssertionError(f"attribute access for {name}")

        def __eq__(self, other):
            raise AssertionError("compared")

        __hash__ = None  # type: ignore[assignment]

    class Holder(Simple):
        def __init__(self):
            super().__init__()
            self.device = Sensitive()

        def observe(self):
            return super().observe() + self.device.imu

        def move(self):
            super().move()
            self.device.imu += 1

    assert [item.tensor for item in check(Holder()).errors] == ["env.device.imu"]


class Proxy:
    """Stands for something that is made when it is first touched."""

    @property  # type: ignore[misc]
    def __class__(self):
        raise AssertionError("touched")

    def __getattribute__(self, name):
        raise AssertionError(f"touched: {name}")


class Guarded(dict):
    def items(self):
        raise AssertionError("listed")

    def __iter__(self):
        raise AssertionError("iterated")


def test_objects_that_refuse_to_be_looked_at_are_left_alone():
    class Holder(Forgotten):
        def __init__(self):
            super().__init__()
            self.proxy = Proxy()
            self.guarded = Guarded(a=1)
            self.dice = random.SystemRandom()
            self.ragged = torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)], layout=torch.jagged)

    assert [item.tensor for item in check(Holder()).errors] == ["env.imu"]


@pytest.mark.matrix(3)
@pytest.mark.parametrize("key", [("leg", 1), None, True, 1.5, "ü\n'", frozenset({1})], ids=repr)
def test_keys_of_any_kind_lead_to_a_tensor_or_to_where_it_is_read(key):
    class Keyed(Simple):
        def __init__(self):
            super().__init__()
            self.sensors = {key: torch.zeros(1, 2)}

        def observe(self):
            return super().observe() + self.sensors[key]

        def move(self):
            super().move()
            self.sensors[key] += 1

    (finding,) = check(Keyed()).errors
    assert finding.kind is FindingKind.UNREGISTERED_INPUT
    assert finding.tensor in (f"env.sensors[{key!r}]", "a tensor that is not stored in an attribute")
    assert "(in observe)" in finding.where


def test_locks_threads_and_files_may_be_attributes(tmp_path: Path):
    class Equipped(Simple):
        def __init__(self):
            super().__init__()
            self.lock = threading.RLock()
            self.thread = threading.current_thread()
            self.log = (tmp_path / "log").open("w")

    env = Equipped()
    assert check(env).ok
    env.log.close()


def test_state_outside_of_every_object_is_noticed_as_a_difference():
    class Global(Simple):
        def observe(self):
            return super().observe() + STATE_OF_THE_CONTEXT.get()

        def move(self):
            super().move()
            STATE_OF_THE_CONTEXT.set(STATE_OF_THE_CONTEXT.get() + 0.1)

    (finding,) = check(Global()).errors
    assert (finding.kind, finding.tensor) == (FindingKind.UNEXPLAINED, "obs")
    assert "obs_0" in finding.what and "actions" in finding.what


STATE_OF_THE_CONTEXT = contextvars.ContextVar("phase", default=0.0)


# -- what it leaves behind ------------------------------------------------------------------------------------------


def test_the_environment_is_where_its_own_steps_lead():
    """After a check the environment is as if it had only been stepped by the actor, by no more than a few steps."""
    env, alone = Forgotten(), Forgotten()
    check(env, steps=5)
    actor = make_actor(2).eval()
    with torch.no_grad():
        for _ in range(env._steps):
            alone.step(actor(alone.observations_reset()))
    assert 5 <= env._steps <= 10
    assert torch.equal(env.value, alone.value) and torch.equal(env.targets, alone.targets)


def test_generators_modes_and_profilers_are_as_before():
    def profiler(*_):
        pass

    env, actor = Forgotten(), make_actor(2).train()
    assert gc.isenabled()
    torch.manual_seed(3), np.random.seed(3), random.seed(3)
    before = torch.get_rng_state(), str(np.random.get_state()), random.getstate()
    sys.setprofile(profiler)
    try:
        check(env, actor)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    after = torch.get_rng_state(), str(np.random.get_state()), random.getstate()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    assert all(module.training for module in actor.modules())
    assert gc.isenabled()


def test_what_lies_in_classes_and_object_arrays_is_taken_back():
    class Counting(Simple):
        calls = 0
        log: list[int] = []  # noqa: RUF012

        def __init__(self):
            super().__init__()
            self.counts = np.array([0, "text"], dtype=object)

        def process_actions(self, actions):
            super().process_actions(actions)
            type(self).calls += 1
            self.log.append(self.calls)
            self.counts[0] += 1

    env = Counting()
    check(env, steps=5)
    assert Counting.calls == len(Counting.log) == env.counts[0] == env._steps


def test_nothing_is_registered_behind_the_users_back():
    env = Forgotten()
    names = env.context_manager().get_input_names()
    check(env)
    assert env.context_manager().get_input_names() == names


def test_an_environment_in_inference_mode_can_be_checked(tmp_path: Path):
    with torch.inference_mode():
        env, faulty = Simple(), Forgotten()
    assert check(env).ok
    assert [item.tensor for item in check(faulty).errors] == ["env.imu"]


# -- constants ------------------------------------------------------------------------------------------------------


class Randomised(Simple):
    """Its friction is drawn anew at each reset, which is no news on the robot."""

    def __init__(self):
        super().__init__(reset_every=3)
        self.friction = torch.ones(1, 2)

    def observe(self):
        return super().observe() * self.friction

    def restart(self):
        self.friction = torch.rand(1, 2, generator=self._noise)


def test_a_constant_that_was_declared_is_not_mentioned(tmp_path: Path):
    env = Randomised()
    assert [item.tensor for item in check(env).errors] == ["env.friction"]
    env.context_manager().add_constant("friction", lambda: env.friction)
    diagnosis = check(env)
    assert diagnosis.ok and not [item for item in diagnosis.findings if "friction" in item.tensor]


def test_a_constant_that_nothing_reads_is_unused():
    env = Simple()
    env.context_manager().add_constant("gravity", lambda: torch.ones(3))
    (finding,) = [item for item in check(env).findings if item.kind is FindingKind.UNUSED]
    assert (finding.tensor, finding.severity) == ("gravity", Severity.INFO)


def test_agreement_and_diagnosis_go_together(tmp_path: Path):
    """What the check lets pass, an evaluation lets pass."""
    env = Simple()
    assert check(env).ok
    assert_agrees(env, make_actor(2), tmp_path)
