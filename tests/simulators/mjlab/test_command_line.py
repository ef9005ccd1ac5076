"""Tasks of mjlab on the command line: `mjlab:TASK`."""

from pathlib import Path

import pytest

from tests.support.command_line import assert_fails, run
from tests.support.mjlab_exports import CART_POLE

TASK = f"mjlab:{CART_POLE}"
SHORT = ("--untrained", "--set", "episode_length_s=1.0", "--set", "seed=0")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cart_pole") / "policy.onnx"
    done = run("export", TASK, *SHORT, "-o", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "obj.cartpole.joints.pos" in done.stdout
    return path


def test_an_exported_task_is_verified(file: Path) -> None:
    done = run("verify", file, TASK, *SHORT, "--steps", 40)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agrees" in done.stdout


@pytest.mark.expensive
def test_a_task_is_checked() -> None:
    done = run("check", TASK, *SHORT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.expensive
def test_a_task_is_reported(file: Path, tmp_path: Path) -> None:
    done = run("report", file, TASK, *SHORT, "--steps", 20, "-o", tmp_path / "report.html")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_a_task_without_a_policy_is_refused(tmp_path: Path) -> None:
    assert_fails(run("export", TASK, "-o", tmp_path / "policy.onnx"), "--checkpoint model.pt")


def test_an_unknown_task_is_refused(tmp_path: Path) -> None:
    assert_fails(run("check", "mjlab:Mjlab-Cartpole-Balanced", "--untrained"), f"Similar: {CART_POLE}")
