"""Every example runs unchanged. The one with MuJoCo is run where MuJoCo is."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from exploy.runtime.backends import REGISTERED

FOLDER = Path(__file__).parents[2] / "examples"
WITH_MUJOCO = {"mujoco_loop"}  # tests/simulators/mjlab/test_mujoco_loop.py runs it
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in WITH_MUJOCO)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """Undo changes to the process: one example registers a backend and imports another example."""
    with mock.patch.dict(REGISTERED):
        yield
    for path in EXAMPLES:
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [str(path)])
    exit_code: object = 0
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as stop:
        exit_code = stop.code
    printed = capfd.readouterr()
    assert exit_code == 0, printed.out
    assert printed.err == ""
    assert "agrees" in printed.out and "DIFFERS" not in printed.out
