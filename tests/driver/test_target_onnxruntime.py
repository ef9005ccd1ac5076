"""Files for the onnxruntime that a robot has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exploy.errors import ContractError, LoweringError
from exploy.runtime import Controller
from exploy.runtime.model_file import ModelFile
from exploy.runtime.onnx.releases import NEWEST, OLDEST, require_readable, support_of
from tests.support.environments import make_actor
from tests.support.files import exported, robot_inputs, write
from tests.support.robot import Robot

OLD_RELEASE = "1.20.1"


def versions(**options: Any) -> tuple[int, int]:
    unchecked = {"verify_program": False, "verify_environment": False, "golden_trace": False}
    file = ModelFile.parse(exported(Robot(), make_actor(13, 3), **options, **unchecked))
    provenance = file.contract.provenance
    assert file.outline is not None
    ir_version, opset = file.outline.ir_version, file.outline.opset
    assert (provenance.opset, provenance.ir_version) == (opset, ir_version)
    return opset, ir_version


def test_opset_and_ir_version_are_what_the_release_reads() -> None:
    assert versions() == (20, 11)
    Controller.load(exported(Robot(), make_actor(13, 3), target_onnxruntime="1.16.3")).selftest()
    assert versions(target_onnxruntime="1.20") == (20, 10)
    assert versions(target_onnxruntime="1.16.3") == (19, 9)
    assert versions(target_onnxruntime="1.31") == (20, 11)
    assert versions(target_onnxruntime="1.20", opset_version=18) == (18, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"target_onnxruntime": "1.20", "opset_version": 22},
            r"1\.20 does not support opset_version=22 \(it supports at most 21",
        ),
        ({"target_onnxruntime": "1.16", "ir_version": 10}, r"1\.16 does not support ir_version=10"),
        ({"target_onnxruntime": "1.3"}, "1.3 is too old"),
        ({"target_onnxruntime": 1.20}, "is not a version of onnxruntime"),
        ({"target_onnxruntime": "newest"}, "'newest' is not a version of onnxruntime"),
    ],
)
def test_what_the_release_cannot_read_fails_at_export(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(LoweringError, match=message):
        exported(Robot(), make_actor(13, 3), **options)


def test_releases_that_are_newer_than_the_table_are_trusted_to_read_what_the_newest_does() -> None:
    assert support_of("9.9.9") == support_of(NEWEST)
    require_readable(opset=99, ir_version=99, version="9.9.9")
    with pytest.raises(ContractError, match="at most"):
        require_readable(opset=99, ir_version=8, version=NEWEST)
    assert support_of(OLDEST).opset >= 18
    assert support_of("1.20.0rc1") == support_of("1.20")


@pytest.mark.expensive  # installs that release
def test_an_old_onnxruntime_runs_a_file_that_was_made_for_it(tmp_path: Path) -> None:
    """With the release itself; one that was not made for it is refused before onnxruntime sees it."""
    release = tmp_path / "onnxruntime"
    install = ["install", "--quiet", "--no-deps", "--target", str(release), f"onnxruntime=={OLD_RELEASE}"]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True, timeout=300)
    data = exported(Robot(), make_actor(13, 3), target_onnxruntime=OLD_RELEASE)
    good = write(data, tmp_path, "good.onnx")
    bad = write(exported(Robot(), make_actor(13, 3)), tmp_path, "bad.onnx")
    values = {name: value.tolist() for name, value in robot_inputs().items()}
    code = f"""
import sys
sys.path.insert(0, {str(release)!r})
import json, onnxruntime
from exploy.runtime import Controller
controller = Controller.load({str(good)!r})
targets = [controller.step(json.loads({json.dumps(values)!r}))["joint_targets"].tolist() for _ in range(6)]
print(json.dumps([onnxruntime.__version__, controller.selftest(), targets]))
try:
    Controller.load({str(bad)!r})
except Exception as error:
    print(type(error).__name__, error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    version, ticks, targets = json.loads(result.stdout.splitlines()[0])
    assert (version, ticks) == (OLD_RELEASE, 12)
    controller = Controller.load(data)
    for got in targets:
        np.testing.assert_allclose(got, controller.step(robot_inputs())["joint_targets"], atol=1e-5)
    assert "ContractError" in result.stdout and 'target_onnxruntime="1.20"' in result.stdout
