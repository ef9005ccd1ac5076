"""On a robot: the bare package in an environment of its own, with neither torch nor onnx."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from exploy.runtime import Controller
from tests.support.files import cart_pole_file, robot_file, robot_inputs, write
from tests.support.robot import JOINTS

pytestmark = pytest.mark.expensive  # makes a venv of its own

ROOT = Path(__file__).parents[2]
SCRIPT = """
import importlib.util, json, sys
import numpy as np
from exploy.errors import LogError
from exploy.runtime import Controller, Guards, Recorder, replay, serve_rate

heavy = ("torch", "onnx", "onnx_ir", "rich", "typer", "mcap")
absent = [name for name in heavy if importlib.util.find_spec(name) is None]
robot, cart_pole, folder, names = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
controller = Controller.load(robot, guards=Guards(rate="off", overrun="off"))
tested = [controller.selftest(), Controller.load(cart_pole).selftest()]
controller.bind("joints.pos", names=names)
inputs = {name: np.array(values, np.float32) for name, values in json.load(open(f"{folder}/inputs.json")).items()}
with Recorder(f"{folder}/run.npz", controller):
    targets = [controller.step(inputs)["joint_targets"].tolist() for _ in range(9)]
try:
    controller.reset()
    Recorder(f"{folder}/run.mcap", controller)
    refused = ""
except LogError as error:
    refused = str(error)
served = serve_rate(controller, lambda: inputs, lambda outputs: None, ticks=3)
print(json.dumps({
    "absent": absent, "tested": tested, "targets": targets, "refused": refused, "served": served.ticks,
    "replay": replay(f"{folder}/run.npz", Controller.load(robot)).ok,
}))
"""


@pytest.fixture(scope="module")
def robot_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the package and what it asks for."""
    folder = tmp_path_factory.mktemp("robot")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    python = folder / "bin" / "python"
    constraints = ROOT / "requirements" / "constraints.txt"
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints), str(ROOT)]
    result = subprocess.run(install, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    return python


def test_load_selftest_bind_step_record_and_replay_work_without_torch(robot_python: Path, tmp_path: Path) -> None:
    order = JOINTS[::-1]
    moved = {name: value if name == "cmd" else value[:, ::-1] for name, value in robot_inputs().items()}
    (tmp_path / "inputs.json").write_text(json.dumps({name: value.tolist() for name, value in moved.items()}))
    files = [str(write(robot_file(), tmp_path)), str(write(cart_pole_file(), tmp_path, "cart_pole.onnx"))]
    result = subprocess.run(
        [str(robot_python), "-W", "error", "-c", SCRIPT, *files, str(tmp_path), json.dumps(order)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["absent"] == ["torch", "onnx", "onnx_ir", "rich", "typer", "mcap"]
    assert found["tested"] == [12, 12]
    assert found["replay"] and found["served"] == 3
    assert "pip install 'exploy[mcap]'" in found["refused"]
    controller = Controller.load(robot_file())
    for got in found["targets"]:
        expected = controller.step(robot_inputs())["joint_targets"]
        np.testing.assert_allclose(got, expected[:, [0, 2, 1]], atol=1e-6)  # toe, knee, hip


def test_the_bare_package_is_small(robot_python: Path) -> None:
    listed = subprocess.run(
        [str(robot_python), "-m", "pip", "list", "--format", "json"], capture_output=True, text=True, check=True
    )
    names = {item["name"] for item in json.loads(listed.stdout)} - {"pip", "setuptools"}
    assert names == {"exploy", "flatbuffers", "numpy", "onnxruntime", "packaging", "protobuf"}
