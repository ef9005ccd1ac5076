"""Policies of older rsl_rl versions, each in a separate process; see old_rsl_rl.py for the comparison."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.expensive  # installs each version

SCRIPT = Path(__file__).with_name("old_rsl_rl.py")
ROOT = Path(__file__).parents[2]
RECURRENT = ["mlp", "tanh", "lstm", "gru"]
STUDENTS = ["student", "recurrent student"]
KINDS = {
    "4.0.1": ["mlp", "two heads", "lstm", "gru", "cnn", "student"],
    "3.3.0": [*RECURRENT, "two heads", "cnn", *STUDENTS],
    "3.0.1": [*RECURRENT, *STUDENTS],
    "2.3.3": [*RECURRENT, *STUDENTS],
    "2.1.2": RECURRENT,
}


@pytest.mark.parametrize("version", KINDS)
def test_every_kind_of_policy_of_an_older_version_agrees_with_its_own_inference(version: str, tmp_path: Path) -> None:
    library = tmp_path / "library"
    install = ["install", "--quiet", "--no-deps", "--target", str(library), f"rsl-rl-lib=={version}"]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True, timeout=300)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(library), str(ROOT)])}
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert json.loads(run.stdout.splitlines()[-1]) == {"version": version, "compared": KINDS[version]}
