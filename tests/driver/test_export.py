"""`exploy.export`: the path is the file, the check comes first, and the result tells what was done."""

from pathlib import Path

import pytest

import exploy
from exploy.errors import BackendError, LoweringError, MetadataError, OutputPathError, UnregisteredStateError
from tests.support.environments import make_actor
from tests.support.factories import forgetful_robot
from tests.support.robot import Robot


def test_the_result_names_the_file_its_contract_and_what_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = exploy.export(Robot(), make_actor(13, 3), tmp_path / "new" / "walk")
    assert result.path == tmp_path / "new" / "walk.onnx" and result.path.is_file()
    assert exploy.Controller.load(result).contract == exploy.Controller.load(result.path).contract
    assert result.diagnosis is not None and result.diagnosis.ok
    verification = result.verification
    assert verification.program and verification.environment and verification.trace_ticks == 12
    printed = str(result)
    for text in (
        "walk.onnx",
        "comparisons with the captured program",
        "joints.pos",
        "hip, knee",
    ):
        assert text in printed


def test_it_says_what_outputs_are_left_with_on_a_stop(tmp_path: Path) -> None:
    stops = {"joint_targets": [1.0, 2.0, 3.0], "actions": "zero"}
    result = exploy.export(Robot(), make_actor(13, 3), tmp_path / "policy.onnx", strict=False, on_stop=stops)
    found = {port.name: port.on_stop for port in result.contract.outputs if port.on_stop is not None}
    assert found == {"joint_targets": (1.0, 2.0, 3.0), "actions": "zero"}
    for bad, message in (
        ({"joint_targets": 51.0}, "'joint_targets': on_stop must be within the limits"),
        ({"joints.pos": "hold"}, r"on_stop has joints\.pos, but the outputs are actions, obs, joint_targets"),
    ):
        with pytest.raises(MetadataError, match=message):
            exploy.export(Robot(), make_actor(13, 3), tmp_path / "bad.onnx", strict=False, on_stop=bad)
    assert not (tmp_path / "bad.onnx").exists()


def test_it_is_strict_unless_told_otherwise(tmp_path: Path) -> None:
    env, actor = forgetful_robot()
    with pytest.raises(UnregisteredStateError, match=r"env\.vel"):
        exploy.export(env, actor, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
    result = exploy.export(env, actor, tmp_path / "policy.onnx", strict=False, golden_trace=False)
    assert result.diagnosis is None and "not checked" in str(result)


def test_the_suffix_tells_the_backend(tmp_path: Path) -> None:
    result = exploy.export(Robot(), make_actor(13, 3), tmp_path / "policy.pt2", strict=False)
    assert result.contract.backend == "torch_export"
    with pytest.raises(BackendError, match="Unknown backend 'tensorrt'"):
        exploy.export(Robot(), make_actor(13, 3), tmp_path / "policy.onnx", backend="tensorrt")
    with pytest.raises(LoweringError, match="does not support ir_version=12"):
        exploy.export(Robot(), make_actor(13, 3), tmp_path / "x.onnx", target_onnxruntime="1.20", ir_version=12)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(OutputPathError, match="is a folder; give the name of a file"):
        exploy.export(Robot(), make_actor(13, 3), tmp_path)


def test_what_is_registered_and_what_runs_print_themselves_as_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    env = Robot()
    printed = str(env.context_manager())
    assert "joints.pos" in printed and "shape (1, 4) float32" in printed
    controller = exploy.Controller.load(exploy.export(env, make_actor(13, 3), tmp_path / "policy.onnx", strict=False))
    assert "0 ticks since the reset" in str(controller) and "hip, knee, ankle, toe" in str(controller)
    assert "policy every 4 ticks" in str(controller.contract)
