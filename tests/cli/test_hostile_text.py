"""Names, units, dates and messages of a file reach the terminal and the report escaped, through every command."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from exploy.contract import Contract, GitCommit, GoldenTrace, ObservationTerm, Port, Provenance, encode_array
from exploy.runtime import Controller, Recorder
from tests.support.command_line import Result, run
from tests.support.files import made_by_hand

EVIL = (
    "a\x1b[2J\x1b]0;owned\x07\r\n\u202eb\u2066\u200b[red]c[/red][link=http://evil.example]d[/link]</script><b>:smile:"
)
SHOWN = r"a\x1b[2J\x1b]0;owned\x07\r\n\u202eb\u2066\u200b[red]c[/red][link=http://evil.example]d[/link]</script><b>"
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff]")


def contract(trace: float = 0.0, backend: str = "onnx", **fields: Any) -> Contract:
    values = encode_array(np.full((2, 1, 2), 0.5, np.float32))
    wanted = encode_array(np.full((2, 1, 2), -0.5 + trace, np.float32))
    described: dict[str, Any] = {"kind": EVIL, "unit": EVIL, "frame": EVIL, "names": (EVIL, f"{EVIL}2")}
    return Contract(
        1,
        (Port(EVIL, "float32", (1, 2), **described, gains={EVIL: (1.0, 2.0)}),),
        (Port(f"{EVIL} out", "float32", (1, 2), **described),),
        (),
        unused_inputs=(EVIL,),
        observation_terms=(ObservationTerm(EVIL, 0, 1),),
        provenance=Provenance({EVIL: EVIL}, EVIL, {EVIL: EVIL}, git=GitCommit(EVIL, True)),
        trace=GoldenTrace(2, {EVIL: values}, {f"{EVIL} out": wanted}, 1e-5),
        backend=backend,
        **fields,
    )


def hostile_file(folder: Path, name: str = "policy.onnx", **fields: Any) -> Path:
    nodes = [helper.make_node("Neg", [EVIL], [f"{EVIL} out"])]
    path = folder / name
    path.write_bytes(made_by_hand(nodes, contract(**fields)))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return hostile_file(tmp_path)


def assert_clean(result: Result, code: int = 0) -> str:
    """The result has the exit code, nothing that cannot be seen, and is returned without its line breaks."""
    text = result.stdout + result.stderr
    assert result.returncode == code, text
    assert not UNSEEN.search(text), UNSEEN.findall(text)
    return re.sub(r"\s|[│┃]", "", text)


def squeezed(text: str) -> str:
    return re.sub(r"\s|[│┃]", "", text)


def test_inspect(file: Path) -> None:
    text = assert_clean(run("inspect", file, COLUMNS="5000"))
    assert squeezed(rf"exported {SHOWN}:smile: with {SHOWN}:smile: {SHOWN}:smile:") in text
    assert r"\u202e" in assert_clean(run("inspect", file, "--json"))


def test_diff(file: Path, tmp_path: Path) -> None:
    other = hostile_file(tmp_path, "other.onnx", observation_names=(EVIL,), sim_dt=0.01)
    assert r"\x1b[2J" in assert_clean(run("diff", file, other), code=1)
    assert_clean(run("diff", file, other, "--json"), code=1)


def test_verify(file: Path, tmp_path: Path) -> None:
    assert "agrees:2ticks" in assert_clean(run("verify", file))
    wrong = assert_clean(run("verify", hostile_file(tmp_path, "wrong.onnx", trace=1.0)), code=1)
    assert "differs:" in wrong and r"\x1b[2J" in wrong


def test_report(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert_clean(run("report", file, "-o", page))
    text = page.read_text()
    ours, _, _ = text.partition("<script")
    assert not UNSEEN.search(ours) and r"\x1b[2J" in ours
    assert "</script><b>" not in text and "<b>:smile:" not in text
    plots = next(part for part in re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL) if "\\\\x1b" in part)
    assert "\\u202e" not in plots.replace("\\\\u202e", ""), "the drawn text would change its direction"


def test_bench_and_replay(file: Path, tmp_path: Path) -> None:
    assert_clean(run("bench", file, "--ticks", "20"))
    controller = Controller.load(file)
    with Recorder(tmp_path / "run.npz", controller):
        controller.step({EVIL: [[0.5, 0.5]]})
    assert r"\x1b[2J" in assert_clean(run("run", file, "--replay", tmp_path / "run.npz"))


def test_errors_are_one_line(tmp_path: Path) -> None:
    evil_path = tmp_path / "x\x1b[2J\n\u202e.onnx"
    evil_path.write_bytes(b"nothing")
    misfit = hostile_file(tmp_path, "misfit.onnx", backend=EVIL)
    for command in (["inspect", evil_path], ["verify", misfit], ["view", evil_path, "--no-browser"]):
        result = run(*command)
        assert_clean(result, code=2)
        assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1


def test_printed_objects(file: Path) -> None:
    controller = Controller.load(file)
    for text in (
        str(controller),
        str(controller.contract),
        str(dataclasses.replace(controller.contract, backend=EVIL)),
    ):
        assert not UNSEEN.search(text)
