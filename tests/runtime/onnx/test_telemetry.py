"""onnxruntime reports to its maker unless it is told not to. exploy tells it so."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.files import robot_file, write

ROOT = Path(__file__).parents[3]
RUN = """
import json, os, sys
{before}
import numpy as np
from exploy.runtime import Controller
controller = Controller.load(sys.argv[1])
values = {{name: np.zeros(buffer.shape, buffer.dtype) for name, buffer in controller.inputs.items()}}
for _ in range(100):
    controller.step(values)
print(json.dumps([os.environ.get("ORT_DISABLE_TELEMETRY"), len(os.listdir("/proc/self/task"))]))
"""


def run_in(home: Path, before: str = "", **variables: str) -> tuple[str | None, int, list[str]]:
    """Load a file and tick in a fresh home: the variable, the threads, and what is in the home afterwards."""
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment = kept | {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), **variables}
    arguments = [sys.executable, "-c", RUN.format(before=before), str(write(robot_file(), home.parent))]
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=environment)
    assert result.returncode == 0, result.stderr
    variable, threads = json.loads(result.stdout)
    return variable, threads, sorted(str(path.relative_to(home)) for path in home.rglob("*"))


def test_a_fresh_home_stays_empty_after_a_load_and_a_hundred_ticks(tmp_path: Path) -> None:
    variable, threads, left = run_in(tmp_path / "home")
    assert variable == "1" and left == []
    variable, allowed, _ = run_in(tmp_path / "other", EXPLOY_ALLOW_TELEMETRY="1")
    assert variable is None and allowed >= threads


@pytest.mark.parametrize("value", ["0", ""])
def test_only_one_value_allows_telemetry(value: str, tmp_path: Path) -> None:
    variable, _, left = run_in(tmp_path / "home", EXPLOY_ALLOW_TELEMETRY=value, ORT_DISABLE_TELEMETRY="0")
    assert variable == "1" and left == []


def imports_onnxruntime(path: Path) -> bool:
    """Whether a file imports onnxruntime where it runs, and not only for its types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(item.name.split(".")[0] == "onnxruntime" for item in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "onnxruntime")
        or (isinstance(node, ast.Constant) and node.value == "onnxruntime" and is_argument_of_an_import(tree, node))
    ]
    return any(node not in for_types for node in found)


def is_argument_of_an_import(tree: ast.Module, constant: ast.Constant) -> bool:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and constant in node.args]
    return any("import" in ast.unparse(call.func) for call in calls)


def test_there_is_one_place_that_imports_onnxruntime() -> None:
    files = [path for folder in ("src", "benchmarks", "examples", "tools") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 200
    assert [path.name for path in files if imports_onnxruntime(path)] == ["session.py"]
