"""Tasks of Isaac Lab on the command line: `isaaclab:TASK`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import assert_fails, run
from tests.support.isaaclab_exports import CART_POLE
from tests.support.small_usd import write_cart_pole, write_ground

TASK = f"isaaclab:{CART_POLE}"


def run_apart(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own: a process can have one environment of Isaac Lab."""
    command = [str(Path(sys.executable).with_name("exploy")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.expensive
def test_a_task_is_exported_and_verified(tmp_path: Path) -> None:
    robot, ground = write_cart_pole(tmp_path / "robot.usda"), write_ground(tmp_path / "ground.usda")
    settings = [f"scene.robot.spawn.usd_path={robot}", f"scene.ground.spawn.usd_path={ground}", "episode_length_s=1.0"]
    task = (TASK, "--untrained", *(word for setting in settings for word in ("--set", setting)))
    done = run_apart("export", *task, "-o", tmp_path / "policy.onnx")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "obj.robot.joints.pos" in done.stdout
    done = run_apart("verify", tmp_path / "policy.onnx", *task, "--steps", 70)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agrees" in done.stdout


def test_an_unknown_task_is_refused() -> None:
    assert_fails(run("check", "isaaclab:Isaac-Cartpol", "--untrained"), f"Similar: {CART_POLE}")
