"""What an export says about frozen state, and the options that make it strict, helpful or tolerant."""

import collections
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.errors import (
    CaptureError,
    DuplicateNameError,
    FrozenTensorWarning,
    InferredMemoryWarning,
    RandomOperatorError,
    UnregisteredStateError,
    VerificationError,
)
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exporter import export_environment_as_onnx
from tests.support.environments import TestEnvironment, assert_agrees, export, make_actor


class Simple(TestEnvironment):
    num_observations = 2

    def __init__(self, reset_every: int = 37):
        super().__init__(reset_every=reset_every)
        self.value = torch.zeros(1, 2)
        self.setup()
        self.context_manager().add_components(
            [Input("value", lambda: self.value), Output("targets", lambda: self.targets)]
        )

    def setup(self):
        pass

    def observe(self):
        return self.value * 2

    def move(self):
        self.value = self.value + self.noise(self.value)


class WithGains(Simple):
    def setup(self):
        self.gains = torch.tensor([2.0, 3.0])
        self.offset = torch.zeros(1, 2)

    def observe(self):
        return self.value * self.gains + self.offset


class WithImu(Simple):
    def setup(self):
        self.imu = torch.zeros(1, 2)

    def observe(self):
        return self.value + self.imu

    def move(self):
        super().move()
        self.imu = self.imu + 0.1


# -- what was frozen ------------------------------------------------------------------------------------------------


FROZEN = pytest.mark.filterwarnings("default::exploy.errors.FrozenTensorWarning")
INFERRED = pytest.mark.filterwarnings("default::exploy.errors.InferredMemoryWarning")


@FROZEN
def test_one_warning_says_what_was_frozen_and_where_the_export_was_called(tmp_path: Path, capsys):
    with pytest.warns(FrozenTensorWarning, match=r"value: env\.gains \[2\], env\.offset \[1, 2\]\.") as caught:
        export_environment_as_onnx(WithGains(), make_actor(2), tmp_path)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert "add_constant()" in str(caught[0].message)
    assert capsys.readouterr().out == ""


@FROZEN
def test_a_long_list_is_cut_short(tmp_path: Path):
    class Many(Simple):
        def setup(self):
            self.gains = [torch.full((2,), float(index)) for index in range(9)]

        def observe(self):
            return self.value + sum(self.gains)

    with pytest.warns(FrozenTensorWarning, match=r"env\.gains\[4\] \[2\] and 4 more\."):
        session = export(Many(), make_actor(2), tmp_path)
    assert session.contract is not None and len(session.contract.frozen) == 9


@pytest.mark.filterwarnings("error::exploy.errors.FrozenTensorWarning")
def test_nothing_is_said_where_nothing_is_frozen(tmp_path: Path, capsys):
    export(Simple(), make_actor(2), tmp_path)
    assert capsys.readouterr().out == ""


def test_the_file_lists_what_was_frozen_with_name_shape_and_hash(tmp_path: Path):
    session = export(WithGains(), make_actor(2), tmp_path)
    assert session.contract is not None
    gains, offset = session.contract.frozen
    assert (gains.name, gains.shape, gains.declared) == ("env.gains", (2,), None)
    assert gains.changed_elements(np.array([2, 3], np.float32)) is None
    assert gains.changed_elements(np.array([2, 4], np.float32)) is not None
    assert offset.name == "env.offset"


# -- constants that are meant ---------------------------------------------------------------------------------------


@FROZEN
def test_a_declared_constant_is_named_in_the_file_and_not_in_the_warning(tmp_path: Path):
    env = WithGains()
    env.context_manager().add_constant("pd_gains", lambda: env.gains)
    with pytest.warns(FrozenTensorWarning, match=r"value: env\.offset \[1, 2\]\."):
        session = assert_agrees(env, make_actor(2), tmp_path, steps=5)
    assert session.contract is not None
    assert {item.name: item.declared for item in session.contract.frozen} == {
        "env.gains": "pd_gains",
        "env.offset": None,
    }


def test_a_constant_needs_a_name_of_its_own():
    env = Simple()
    env.context_manager().add_constant("gains", lambda: env.value)
    with pytest.raises(DuplicateNameError, match="constant named 'gains' already exists"):
        env.context_manager().add_constant("gains", lambda: env.value)
    with pytest.raises(DuplicateNameError, match="'gains'"):
        env.context_manager().add_component(Input("gains", lambda: env.value))
    with pytest.raises(DuplicateNameError, match="'value'"):
        env.context_manager().add_constant("value", lambda: env.value)


# -- strict ---------------------------------------------------------------------------------------------------------


def test_a_strict_export_refuses_unregistered_state_with_the_diagnosis(tmp_path: Path):
    with pytest.raises(UnregisteredStateError, match=r"env\.imu") as caught:
        export(WithImu(), make_actor(2), tmp_path, strict=True)
    (finding,) = caught.value.diagnosis.errors
    assert (finding.kind, finding.tensor) == (FindingKind.UNREGISTERED_INPUT, "env.imu")
    assert 'Input(name="imu", get_from_env_cb=lambda: env.imu)' in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_strict_export_of_a_complete_environment_is_the_same_file(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    env, actor = WithGains(), make_actor(2)
    export(env, actor, tmp_path / "lenient")
    export(env, actor, tmp_path / "strict", strict=True)
    files = [(tmp_path / kind / "policy.onnx").read_bytes() for kind in ("lenient", "strict")]
    assert files[0] == files[1]


def test_a_strict_export_takes_its_steps_back(tmp_path: Path):
    env = WithGains()
    value, steps = env.value, env._steps
    generator = env._noise.get_state()
    export(env, make_actor(2), tmp_path, strict=True)
    assert env.value is value and torch.equal(value, torch.zeros(1, 2))
    assert env._steps == steps
    assert torch.equal(env._noise.get_state(), generator)


def test_a_declared_constant_passes_a_strict_export_although_it_changes(tmp_path: Path):
    env = WithImu()
    env.context_manager().add_constant("imu_bias", lambda: env.imu)
    contract = export(env, make_actor(2), tmp_path, strict=True).contract
    assert contract is not None
    assert [(item.name, item.declared) for item in contract.frozen] == [("env.imu", "imu_bias")]


# -- memories that were forgotten -----------------------------------------------------------------------------------


class Remembering(Simple):
    def setup(self):
        self.last_action = torch.zeros(1, 2)
        self.history = collections.deque([torch.zeros(1, 2), torch.zeros(1, 2)], maxlen=2)

    def observe(self):
        self.history.append(self.value * 1.0)
        return self.history[0] + self.last_action

    def process_actions(self, actions):
        super().process_actions(actions)
        self.last_action = actions.clone()


def test_a_forgotten_memory_stops_an_export(tmp_path: Path):
    with pytest.raises(VerificationError, match="register it as a Memory"):
        export(Remembering(), make_actor(2), tmp_path)


@INFERRED
def test_forgotten_memories_are_registered_on_request_and_said(tmp_path: Path):
    env = Remembering(reset_every=1000)
    with pytest.warns(InferredMemoryWarning, match="^Registered as memories: ") as caught:
        session = assert_agrees(env, make_actor(2), tmp_path, infer_memory=True, initial_memory="found")
    line = str(caught[0].message)
    assert "last_action (env.last_action)" in line and "history_1 (env.history[1])" in line
    assert {"memory.last_action.in", "memory.history_1.in"} <= set(session.input_names)
    assert {item.name for item in env.context_manager().get_memory_components()} == {"last_action", "history_1"}


def test_the_state_of_an_actor_is_inferred_as_well(tmp_path: Path):
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell = torch.nn.GRUCell(2, 2)
            self.hidden = torch.zeros(1, 2)

        def forward(self, obs):
            self.hidden = self.cell(obs, self.hidden)
            return self.hidden * 1.0

    session = assert_agrees(Simple(reset_every=1000), Recurrent(), tmp_path, infer_memory=True, initial_memory="found")
    assert "memory.hidden.in" in session.input_names


def test_memories_are_taken_back_if_the_export_fails(tmp_path: Path):
    class Unexportable(Remembering):
        def metadata(self):
            return {"env": object()}

    env = Unexportable()
    with pytest.raises(Exception, match="JSON"):
        export(env, make_actor(2), tmp_path, infer_memory=True)
    assert not env.context_manager().get_memory_components()


@pytest.mark.filterwarnings("error::exploy.errors.InferredMemoryWarning")
def test_what_is_registered_already_is_not_inferred(tmp_path: Path):
    env = Remembering()
    env.context_manager().add_components([Memory("a", lambda: env.last_action), Memory("b", lambda: env.history[1])])
    assert_agrees(env, make_actor(2), tmp_path, infer_memory=True)


# -- random numbers -------------------------------------------------------------------------------------------------


class Sampling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, obs):
        mean = self.linear(obs)
        return mean + 0.1 * torch.randn_like(mean)


class Noisy(Simple):
    def observe(self):
        return self.value + 0.1 * torch.randn(1, 2)


class NoisyTargets(Simple):
    def process_actions(self, actions):
        self.targets[:] = actions + 0.1 * torch.rand(1, 2)


@pytest.mark.parametrize("allow_random", [False, True])
@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Noisy, r"(in observe).*where observations are computed.*Disable observation noise before exporting"),
        (NoisyTargets, r"(in process_actions).*where actions are processed"),
    ],
)
def test_noise_in_the_environment_is_refused_with_its_place(env, message, allow_random, tmp_path: Path):
    with pytest.raises(RandomOperatorError, match=message):
        export(env(), make_actor(2), tmp_path, allow_random=allow_random)


def test_a_random_actor_is_refused_unless_it_is_allowed(tmp_path: Path):
    with pytest.raises(CaptureError, match=r"(in forward).*deterministic form.*allow_random=True"):
        export(Simple(), Sampling(), tmp_path)


def test_an_allowed_random_actor_draws_anew_at_each_run(tmp_path: Path, capsys):
    env, actor = Simple(), Sampling()
    session = export(env, actor, tmp_path, allow_random=True)
    inputs = {"value": np.zeros((1, 2), np.float32), "ctx.step_count": np.array(0, np.int32)}
    inputs |= {name: np.zeros((1, 2), np.float32) for name in session.input_names if name.startswith("memory.")}
    drawn = np.concatenate([session(**inputs)[session.output_names.index("actions")] for _ in range(400)])
    assert np.abs(drawn.std(0) - 0.1).max() < 0.02
    assert np.abs(drawn.mean(0) - actor.linear.bias.detach().numpy()).max() < 0.02


def test_outputs_that_randomness_reaches_are_not_compared_and_listed_as_such(tmp_path: Path, capsys):
    env, actor = Simple(), Sampling()
    session = export(env, actor, tmp_path, allow_random=True)
    assert session.contract is not None
    assert set(session.contract.random_outputs) >= {"actions", "targets"}
    run = partial(evaluate, env, env.context_manager(), session, num_steps=5, pause_on_failure=False)
    assert not run()[0]
    report = capsys.readouterr().out
    assert report.startswith("incomplete: actions, targets could not be compared")
    assert report.count("not compared: depends on random numbers") == 2
    assert not run(allow_uncompared=["actions"])[0]
    assert run(allow_uncompared=["actions", "targets"])[0]


# -- evaluate -------------------------------------------------------------------------------------------------------


def test_changed_frozen_tensors_are_on_top_of_the_report(tmp_path: Path, capsys):
    env, actor = WithImu(), make_actor(2)
    session = export(env, actor, tmp_path)
    capsys.readouterr()
    ok, _ = evaluate(env, env.context_manager(), session, num_steps=3, verbose=False, pause_on_failure=False)
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert not ok
    assert first == (
        "env.imu is frozen in the file, but changed in the environment at step 1: register it as an Input or Memory."
    )
    assert "does NOT agree" in second


def test_a_change_that_no_output_shows_is_told_all_the_same(tmp_path: Path, capsys):
    class Saturated(WithImu):
        def observe(self):
            return self.value + self.imu.clamp(-5, 0)

    env, actor = Saturated(), make_actor(2)
    session = export(env, actor, tmp_path)
    capsys.readouterr()
    ok, _ = evaluate(env, env.context_manager(), session, num_steps=3, pause_on_failure=False)
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert ok
    assert first.startswith("env.imu is frozen in the file, but changed") and "no output differs yet" in first
    assert "agrees" in second


def test_a_declared_constant_that_changes_is_mentioned_only_where_the_file_differs(tmp_path: Path, capsys):
    env, actor = WithImu(), make_actor(2)
    env.context_manager().add_constant("bias", lambda: env.imu)
    session = export(env, actor, tmp_path)
    ok, _ = evaluate(env, env.context_manager(), session, num_steps=3, pause_on_failure=False)
    assert not ok
    assert "it was declared as the constant bias" in capsys.readouterr().out
