"""`exploy compile`, and the other commands on what it writes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from exploy.contract import Contract
from exploy.runtime import Controller, Recorder
from tests.support.c_files import plain_robot_archive, plain_robot_file
from tests.support.command_line import ROOT, assert_fails, run
from tests.support.files import recurrent_file, robot_inputs, write

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return write(plain_robot_file(), tmp_path, "robot.onnx")


def test_an_archive_is_written_next_to_the_file_and_said(policy: Path) -> None:
    result = run("compile", policy)
    assert result.returncode == 0, result.stderr
    sizes, compiled, compared = result.stdout.splitlines()
    assert sizes.startswith(f"{policy.with_name('robot.c.zip')}: robot.h ") and "librobot.so" in sizes
    assert compiled.startswith("compiled by ") and compiled.endswith(" s")
    assert compared == "agrees: 12 ticks of the trace give the same results as torch."
    assert policy.with_name("robot.c.zip").read_bytes() == plain_robot_archive()


def test_a_folder_is_written_for_any_other_name(policy: Path, tmp_path: Path) -> None:
    assert run("compile", policy, "-o", f"{tmp_path / 'out'}/").returncode == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"robot.h", "robot.c", "robot_selftest.c", "librobot.so", "steps.json", "contract.json"} <= names
    assert Contract.from_json((tmp_path / "out" / "contract.json").read_text()).backend == "c"
    assert run("compile", policy, "--unpack", "--name", "walk").returncode == 0
    assert (tmp_path / "robot" / "walk.h").is_file()
    assert_fails(run("compile", policy, "--unpack", "-o", tmp_path / "a.c.zip"), "Name a folder")
    assert_fails(run("compile", policy, "-o", policy), "is a file")


def test_it_needs_no_torch(policy: Path) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
from exploy.cli.main import main
sys.argv = ["exploy", "compile", {str(policy)!r}]
main()
"""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr


def test_without_onnx_it_says_what_to_install(policy: Path) -> None:
    with mock.patch.dict(sys.modules, {"exploy.codegen.build": None}):
        assert_fails(run("compile", policy), "pip install onnx onnx-ir")


def test_without_a_compiler_sources_are_written_and_nobody_has_run_them(policy: Path, tmp_path: Path) -> None:
    with mock.patch.dict(sys.modules, {"ziglang": None}):
        result = run("compile", policy, PATH=str(tmp_path), CC="")
    assert result.returncode == 3, result.stderr
    assert "Nobody has run the self-test of these sources" in result.stdout and "robot_selftest()" in result.stdout
    archive = policy.with_name("robot.c.zip")
    assert_fails(run("verify", archive, "--allow-code"), "nobody has run its self-test")
    assert run("inspect", archive).returncode == 0


def test_without_a_trace_nothing_was_compared(tmp_path: Path) -> None:
    policy = write(plain_robot_file(golden_trace=False), tmp_path)
    result = run("compile", policy)
    assert result.returncode == 3 and "nothing tells whether the library is right" in result.stdout


def test_open_sizes_become_one_and_that_is_said(tmp_path: Path) -> None:
    result = run("compile", write(recurrent_file(batch="batch"), tmp_path))
    assert "for one robot: batch, which an ONNX file leaves open, became 1" in result.stdout, result.stderr


def test_a_file_that_is_no_onnx_file_is_refused(tmp_path: Path) -> None:
    path = write(plain_robot_archive(), tmp_path, "robot.c.zip")
    assert_fails(run("compile", path, "-o", tmp_path / "again.c.zip"), "Compiling takes ONNX files")


def test_other_commands_take_an_archive(tmp_path: Path) -> None:
    path = write(plain_robot_archive(), tmp_path, "robot.c.zip")
    assert json.loads(run("inspect", path, "--json").stdout)["contract"]["backend"] == "c"
    assert "allow_code=True" in run("verify", path).stderr
    assert "agrees: 12 ticks" in run("verify", path, "--allow-code").stdout
    assert run("bench", path, "--ticks", "40", "--allow-code").returncode == 0
    onnx = write(plain_robot_file(), tmp_path)
    assert run("diff", onnx, path, "--allow-code").returncode == 0
    controller = Controller.load(path, allow_code=True)
    with Recorder(tmp_path / "run.npz", controller):
        for tick in range(12):
            controller.step(robot_inputs(tick))
    result = run("run", path, "--replay", tmp_path / "run.npz", "--allow-code")
    assert result.returncode == 0 and "agrees" in result.stdout


def test_an_environment_is_exported_as_c(tmp_path: Path) -> None:
    path = tmp_path / "pendulum.c.zip"
    result = run("export", f"{ROOT / 'examples' / 'quickstart.py'}:make", "-o", path)
    assert result.returncode == 0, result.stderr
    assert run("verify", path, "--allow-code").returncode == 0
    refused = run("export", f"{ROOT / 'examples' / 'quickstart.py'}:make", "-o", path, "--opset", "18")
    assert_fails(refused, "opset_version")
