"""Observations in several groups: through check, export, evaluation, controller, trace, report and commands."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import InvalidEnvironmentError, UnreadGroupWarning, UnregisteredStateError
from exploy.exporter.core.components import Input, Output
from exploy.report.gather import from_environment, from_trace
from exploy.report.page import render
from exploy.runtime import Controller
from tests.support.camera_robots import BUILDS, SIZE, CameraPolicy, CameraRobot, TensorDictRobot, camera_robot
from tests.support.checking import check
from tests.support.command_line import run
from tests.support.environments import assert_agrees

PORTS = ("obs.policy", "obs.camera")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exploy.export(*camera_robot(), tmp_path_factory.mktemp("camera") / "policy.onnx").path


# -- what it is for ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::exploy.errors.UnreadGroupWarning")
@pytest.mark.matrix
@pytest.mark.parametrize("build", BUILDS)
def test_a_vector_and_an_image_are_checked_exported_and_agree(build: str, tmp_path: Path) -> None:
    assert check(*BUILDS[build]()).ok
    session = assert_agrees(*BUILDS[build](), tmp_path)
    contract = session.contract
    assert contract is not None and contract.observation_outputs == PORTS


def test_a_strict_export_verifies_them(file: Path) -> None:
    contract = Controller.load(file).contract
    policy, camera = (port for port in contract.outputs if port.name in PORTS)
    assert (policy.names, camera.names) == (("angle", "speed", "last_0", "last_1"), None)
    assert camera.shape == (1, 2, SIZE, SIZE)
    assert [(term.port, term.name, term.start, term.stop) for term in contract.observation_terms] == [
        ("obs.policy", "angle", 0, 1),
        ("obs.policy", "speed", 1, 2),
        ("obs.policy", "last", 2, 4),
    ]
    assert contract.observation_names == ()


def test_the_controller_gives_what_the_environment_gives(file: Path) -> None:
    controller, (env, actor) = Controller.load(file), camera_robot()
    assert controller.selftest() > 0
    controller.reset()
    for tick in range(40):
        outputs = controller.step({"state": env.state, "image": env.image})
        if tick % 4 == 0:
            observations = env.compute_observations()
            with torch.no_grad():
                env.process_actions(actor(observations))
            for group, tensor in observations.items():
                np.testing.assert_allclose(outputs[f"obs.{group}"], tensor.numpy(), atol=1e-6)
        env.apply_actions()
        np.testing.assert_allclose(outputs["targets"], env.applied.numpy(), atol=1e-5)
        env.move()


def test_the_trace_and_the_report_have_all_groups(file: Path) -> None:
    trace = Controller.load(file).contract.trace
    assert trace is not None and {*PORTS} < trace.outputs.keys()
    for content in (from_trace(file), from_environment(file, *camera_robot(), steps=20)):
        assert {*PORTS} < {output.name for output in content.outputs}
        assert all(name in render(content) for name in PORTS)


@pytest.mark.expensive
def test_zeros_of_an_image_on_sub_steps_are_not_stored(tmp_path: Path) -> None:
    env, actor = camera_robot()
    data = exploy.export(env, actor, tmp_path / "policy.onnx", golden_trace=False).path.read_bytes()
    image = b"\0" * (4 * 2 * SIZE * SIZE)
    assert data.count(image) == 0


def test_commands_show_groups(file: Path) -> None:
    text = run("inspect", file).stdout
    assert "obs.policy angle [0:1], speed [1:2], last [2:4]" in text and "obs.camera" in text
    assert run("diff", file, file).returncode == 0


# -- what the actor does not read ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::exploy.errors.UnusedInputWarning")
def test_a_group_that_the_actor_does_not_read_is_left_out_and_said(tmp_path: Path) -> None:
    env = TensorDictRobot()
    env.context_manager().add_component(Input("friction", lambda: env.friction))
    with pytest.warns(UnreadGroupWarning, match=r"does not read obs\.critic"):
        result = exploy.export(env, CameraPolicy(), tmp_path / "policy.onnx", strict=False)
    assert result.contract.observation_outputs == PORTS
    assert result.contract.unused_inputs == ("friction",)


@pytest.mark.filterwarnings("ignore::exploy.errors.UnreadGroupWarning")
@pytest.mark.expensive
def test_what_only_such_a_group_reads_is_not_frozen(tmp_path: Path) -> None:
    result = exploy.export(TensorDictRobot(), CameraPolicy(), tmp_path / "policy.onnx", strict=False)
    assert not result.contract.frozen


@pytest.mark.expensive
def test_a_group_that_the_actor_reads_through_a_view_stays(tmp_path: Path) -> None:
    class Reader(torch.nn.Module):
        def forward(self, obs: Any) -> torch.Tensor:
            return obs["camera"].flatten(1)[:, 3:5] + obs["policy"][:, :2]

    result = exploy.export(CameraRobot(), Reader(), tmp_path / "policy.onnx", strict=False)
    assert result.contract.observation_outputs == PORTS


@pytest.mark.expensive
def test_groups_within_groups_have_both_names(tmp_path: Path) -> None:
    class Nested(CameraRobot):
        def compute_observations(self) -> Any:
            groups = super().compute_observations()
            return {"policy": groups["policy"], "eyes": {"left": groups["camera"]}}

        def empty_actor_observations(self) -> Any:
            return {"policy": torch.zeros(1, 4), "eyes": {"left": torch.zeros(1, 2, SIZE, SIZE)}}

    class Reader(CameraPolicy):
        def forward(self, obs: Any) -> torch.Tensor:
            return super().forward({"policy": obs["policy"], "camera": obs["eyes"]["left"]})

    session = assert_agrees(Nested(), Reader(), tmp_path)
    assert session.contract is not None and session.contract.observation_outputs == ("obs.policy", "obs.eyes.left")


# -- faults ------------------------------------------------------------------------------------------------------


def test_an_unregistered_image_is_found(tmp_path: Path) -> None:
    env, actor = camera_robot()
    env.context_manager().remove_component("image")
    with pytest.raises(UnregisteredStateError, match=r"env\.image"):
        exploy.export(env, actor, tmp_path / "policy.onnx")


def test_a_wrong_group_is_named_by_an_evaluation(tmp_path: Path) -> None:
    class Tinted(CameraRobot):
        tint = 0.0

        def compute_observations(self) -> Any:
            groups = super().compute_observations()
            return groups | {"camera": groups["camera"] + self.tint}

    env = Tinted()
    path = exploy.export(env, CameraPolicy(), tmp_path / "policy.onnx").path
    env.tint = 0.25
    content = from_environment(path, env, CameraPolicy(), steps=10)
    errors = {output.name: max(output.errors) for output in content.outputs if not output.agrees}
    assert errors["obs.camera"] == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        ({}, r"must return a torch\.Tensor, or a dictionary .* got no group"),
        ({"policy": [1.0]}, r"group 'policy' must return a torch\.Tensor, .* got list"),
        ({"a b": torch.zeros(1, 4)}, "without white space"),
        ({3: torch.zeros(1, 4)}, "needs a name"),
        ({"policy": torch.zeros(1, 5)}, r"'policy': shape \(1, 4\).*got 'policy': shape \(1, 5\)"),
        ({"policy": torch.zeros(1, 4), "x": {"y": torch.zeros(1)}, "x.y": torch.zeros(1)}, "two groups"),
    ],
)
def test_other_results_are_refused(observations: Any, message: str, tmp_path: Path) -> None:
    class Wrong(CameraRobot):
        def compute_observations(self) -> Any:
            return observations

        def empty_actor_observations(self) -> Any:
            return {"policy": torch.zeros(1, 4)}

    with pytest.raises(InvalidEnvironmentError, match=message):
        exploy.export(Wrong(), CameraPolicy(), tmp_path / "policy.onnx", strict=False)


def test_a_step_that_forgets_a_group_is_named(tmp_path: Path) -> None:
    class Forgetful(CameraRobot):
        def step(self, actions: torch.Tensor) -> Any:
            observations, done = super().step(actions)
            groups: Any = observations
            return {"policy": groups["policy"]}, done

    finding = check(Forgetful(), CameraPolicy()).findings[0]
    assert finding.kind == FindingKind.CANNOT_STEP and "returned obs.policy, without obs.camera" in finding.what


def test_a_component_with_the_name_of_a_group_is_refused(tmp_path: Path) -> None:
    env, actor = camera_robot()
    env.context_manager().add_component(Output("obs.camera", lambda: env.targets))
    with pytest.raises(InvalidEnvironmentError, match=r"'obs\.camera', like a registered component"):
        exploy.export(env, actor, tmp_path / "policy.onnx", strict=False)


@pytest.mark.matrix(2)
@pytest.mark.parametrize(
    ("names", "what"),
    [
        ({"policy": ["a", "b"]}, "2 names for 4 elements of obs.policy"),
        ({}, "0 names for 4 elements of obs.policy"),
        (["a", "b", "c", "d"], "names of obs, which compute_observations"),
        ({"policy": ["a", "b", "c", "d"], "lidar": ["x"]}, "names of obs.lidar, which compute_observations"),
        ({"policy": [1, 2, 3, 4]}, "must return a list of strings"),
    ],
)
def test_names_that_do_not_fit_are_found(names: Any, what: str) -> None:
    class Named(CameraRobot):
        def get_observation_names(self) -> Any:
            return names

    findings = check(Named(), CameraPolicy()).findings
    assert any(item.kind == FindingKind.WRONG_NAMES and what in item.what for item in findings)
