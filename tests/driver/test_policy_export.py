"""Exports of policies alone: what is in the file, and what is refused."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from exploy.driver.policy_export import export_policy
from exploy.errors import (
    CaptureError,
    ExployError,
    LoweringError,
    MetadataError,
    OutputPathError,
    PolicyError,
    RandomOperatorError,
)
from exploy.exporter.core.actor import add_actor_memory
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors
from exploy.policy.recurrent import rnn_states, rnn_step
from exploy.runtime import Controller
from tests.support.robot import Robot


class Recurrent(Policy):
    """An LSTM between two layers."""

    def __init__(self, width: int = 4, actions: int = 2):
        torch.manual_seed(0)
        rnn = torch.nn.LSTM(width, 8)
        super().__init__([PolicyInput("obs", (BATCH, width))], rnn_states(rnn), libraries=("torch", "no-such-package"))
        self.rnn, self.head, self.unused = rnn, torch.nn.Linear(8, actions), torch.nn.Linear(512, 512)

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        features, states = rnn_step(self.rnn, inputs[0], states)
        return (self.head(features),), states


class Noise(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)


class Noisy(Recurrent):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Sequential(self.head, Noise())  # type: ignore[assignment]


class FixedBatch(Recurrent):
    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        (actions,), states = super().step(inputs, states)
        return (actions + torch.ones(len(actions.tolist()), 1),), states


def test_the_file_describes_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = export_policy(
        Recurrent(),
        tmp_path / "new" / "policy_v1.2",
        obs_names=["pos_0", "pos_1", "vel_0", "vel_1"],
        action_names=["hip", "knee"],
        rate_hz=50,
        on_stop=np.array([0.5, -0.5]),
        model_source={"run": 7},
        verbose=True,
    )
    assert path.name == "policy_v1.2.onnx" and [item.name for item in path.parent.iterdir()] == [path.name]
    assert "policy_v1.2.onnx" in capsys.readouterr().out
    contract = Controller.load(path).contract
    assert [port.name for port in contract.inputs] == ["obs", "h_in", "c_in"]
    assert [port.name for port in contract.outputs] == ["actions", "h_out", "c_out"]
    assert [(term.name, term.start, term.stop) for term in contract.observation_terms] == [("pos", 0, 2), ("vel", 2, 4)]
    assert contract.outputs[0].names == ("hip", "knee")
    assert [port.on_stop for port in contract.outputs] == [(0.5, -0.5), None, None]
    assert (contract.decimation, contract.hz, contract.sub_step_inputs) == (1, 50.0, {})
    assert contract.provenance.model_source == {"run": 7} and "torch" in contract.provenance.versions
    assert "no-such-package" not in contract.provenance.versions
    metadata = {item.key: item.value for item in onnx.load(path).metadata_props}
    assert (metadata["decimation"], metadata["update_rate"]) == ("1", "50.0")


def test_weights_that_nothing_reads_are_left_out(tmp_path: Path) -> None:
    path = export_policy(Recurrent(), tmp_path / "policy.onnx", dynamic_batch=True)
    assert path.stat().st_size < 50_000


def test_the_same_file_for_old_and_new_onnxruntime(tmp_path: Path) -> None:
    def versions(**options: Any) -> tuple[int, int]:
        model = onnx.load(export_policy(Recurrent(), tmp_path / "policy.onnx", **options))
        return model.opset_import[0].version, model.ir_version

    assert versions() == (20, 11)
    assert versions(target_onnxruntime="1.16") == (19, 9)
    assert versions(opset_version=12, ir_version=7, golden_trace=False) == (12, 7)
    assert Controller.load(tmp_path / "policy.onnx").contract.trace is None
    with pytest.raises(LoweringError, match="does not support opset_version=22"):
        versions(target_onnxruntime="1.20", opset_version=22)


@pytest.mark.matrix(9)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on_stop": "stop"}, MetadataError, """'actions': on_stop must be "hold", "zero", a number, or 2 numbers"""),
        ({"on_stop": {"h_out": "zero"}}, MetadataError, "on_stop has h_out, but the outputs are actions"),
        ({"on_stop": [1.0, float("nan")]}, MetadataError, "on_stop must be finite"),
        ({"obs_names": ["a", "b"]}, MetadataError, "obs_names must be a list of 4 different strings"),
        ({"obs_names": ["a", "a", "b", "c"]}, MetadataError, "obs_names must be a list of 4 different strings"),
        ({"obs_names": "abcd"}, MetadataError, "obs_names must be a list of 4 different strings"),
        ({"obs_names": {"a", "b", "c", "d"}}, MetadataError, "obs_names must be a list of 4 different strings"),
        ({"obs_names": ["a", "b", "c", ""]}, MetadataError, "obs_names must be a list of 4 different strings"),
        ({"obs_names": 5}, MetadataError, "obs_names must be a list of 4 different strings"),
        ({"action_names": ["a"]}, MetadataError, "action_names must be a list of 2 different strings"),
        ({"action_names": {"a": 1, "b": 2}}, MetadataError, "action_names must be a list of 2 different strings"),
        ({"dynamic_batch": "no"}, MetadataError, "dynamic_batch must be True or False"),
        ({"rate_hz": 5e-324}, MetadataError, "rate_hz must be"),
        ({"opset_version": 17.0}, LoweringError, "opset_version must be an integer"),
        ({"ir_version": "x"}, LoweringError, "ir_version must be an integer"),
        ({"rate_hz": 0}, MetadataError, "rate_hz must be the number of policy steps"),
        ({"rate_hz": float("nan")}, MetadataError, "rate_hz must be"),
        ({"rate_hz": True}, MetadataError, "rate_hz must be"),
        ({"model_source": [1]}, MetadataError, "model_source must be a dictionary"),
        ({"model_source": {"a": object()}}, ExployError, "model_source"),
        ({"opset_version": 3}, LoweringError, "11 is the oldest"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        export_policy(Recurrent(), tmp_path / "policy.onnx", **options)
    assert list(tmp_path.iterdir()) == []


def test_policies_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RandomOperatorError, match=r"test_policy_export.py:\d+ \(in forward\): .*randn_like"):
        export_policy(Noisy(), tmp_path / "policy.onnx")
    with pytest.raises(CaptureError, match="cannot be captured"):
        export_policy(FixedBatch(), tmp_path / "policy.onnx", dynamic_batch=True)
    with pytest.raises(OutputPathError, match="is a folder"):
        export_policy(Recurrent(), tmp_path)
    assert list(tmp_path.iterdir()) == []


class WithoutNumbers(Recurrent):
    def __init__(self) -> None:
        super().__init__()
        self.head.weight.data[0, 0] = float("nan")


class OfZero(Recurrent):
    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        (actions,), states = super().step(inputs, states)
        return (actions * 0.0 / 0.0,), states


def test_policies_that_are_broken_already_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    with pytest.raises(PolicyError, match=r"weights that are NaN: head.weight"):
        export_policy(WithoutNumbers(), path)
    with pytest.raises(PolicyError, match=r"returns NaN in actions for obs \[1, 4\]"):
        export_policy(OfZero(), path)
    with pytest.raises(PolicyError, match=r"cannot be computed from obs \[1, 4\] in single precision: ValueError"):
        export_policy(Recurrent().half(), path)
    assert list(tmp_path.iterdir()) == []


class AlongRobots(torch.nn.Module):
    """Compares robots with each other."""

    def __init__(self, compare: Callable[[torch.Tensor], torch.Tensor]):
        super().__init__()
        self.compare = compare

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.compare(x)


ALONG_ROBOTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "median": lambda x: x.median(0).values,
    "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: x.cummax(0).values,
}


@pytest.mark.parametrize("name", ALONG_ROBOTS)
def test_what_is_computed_along_an_open_number_of_robots_is_refused_by_name(name: str, tmp_path: Path) -> None:
    policy = Recurrent()
    policy.head = torch.nn.Sequential(policy.head, AlongRobots(ALONG_ROBOTS[name]))  # type: ignore[assignment]
    with pytest.raises(LoweringError, match=rf"test_policy_export.py:\d+ \(in .*\): aten.{name}.* number of robots"):
        export_policy(policy, tmp_path / "policy.onnx", dynamic_batch=True)


@pytest.mark.parametrize("path", [None, 5, "", "a\0b", "x" * 300])
def test_paths_that_are_none_are_refused(path: Any) -> None:
    with pytest.raises(OutputPathError):
        export_policy(Recurrent(), path)


def test_what_is_switched_on_around_an_export_does_not_get_in(tmp_path: Path) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        path = export_policy(Recurrent(), tmp_path / "policy.onnx", rate_hz=np.float32(50))  # type: ignore[arg-type]
    obs = np.linspace(-1, 1, 4, dtype=np.float32)[None]
    policy = Recurrent()
    with torch.no_grad():
        expected = policy(torch.from_numpy(obs))
    np.testing.assert_allclose(Controller.load(path).step({"obs": obs})["actions"], expected, atol=1e-6)


def test_a_policy_is_an_actor_of_environments(tmp_path: Path) -> None:
    """Its state becomes memories, and the file agrees with the environment over many steps."""
    env, actor = Robot(), Recurrent(13, 3)
    add_actor_memory(env.context_manager(), actor.get_state)
    export_environment_as_onnx(env, actor, tmp_path)
    controller = Controller.load(tmp_path / "policy.onnx")
    assert {"actor_state_0", "actor_state_1"} <= {memory.name for memory in controller.contract.memories}
    session = SessionWrapper(tmp_path, "policy.onnx", actor)
    with torch.inference_mode():
        success, _ = evaluate(env, env.context_manager(), session, num_steps=20, verbose=False)
    assert success


def test_the_trace_belongs_to_the_policy(tmp_path: Path) -> None:
    """A trace of other weights fails the self-test, so it is not taken from the file itself."""
    path = export_policy(Recurrent(), tmp_path / "policy.onnx", dynamic_batch=True)
    controller = Controller.load(path, sizes={"batch": 4})
    trace = controller.contract.trace
    assert trace is not None and controller.selftest() == trace.ticks
    policy, states = Recurrent(), tuple(state.initial(1) for state in Recurrent().states)
    for obs, expected in zip(trace.input_arrays()["obs"], trace.output_arrays()["actions"], strict=True):
        with torch.no_grad():
            (actions,), states = policy.step((torch.from_numpy(obs),), states)
        np.testing.assert_allclose(actions, expected, atol=1e-6)
    assert dataclasses.asdict(controller.contract)["memories"][0]["name"] == "h"
