"""A program is built only if its library computes the golden trace; the archive has everything, and the same bytes."""

import dataclasses
import io
import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from exploy.codegen import build as builder
from exploy.codegen.build import Built, build
from exploy.codegen.compilers import Compiler, compile_library
from exploy.contract import Contract, GoldenTrace, Port, encode_array
from exploy.errors import LoweringError, VerificationError
from exploy.runtime.archives import archive
from exploy.runtime.model_file import ModelFile
from tests.support.c_files import compiler, plain_robot_archive, plain_robot_file
from tests.support.files import made_by_hand

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def built(with_compiler: Compiler | None, data: bytes | None = None, **changes: Any) -> Built:
    file = ModelFile.parse(plain_robot_file() if data is None else data)
    return build(file.data, dataclasses.replace(file.contract, **changes), "robot", with_compiler)


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_the_archive_has_sources_library_and_contract() -> None:
    contents = members(plain_robot_archive())
    assert list(contents) == [
        f"robot/{name}"
        for name in (
            "robot.h",
            "robot.c",
            "robot_weights.c",
            "robot_selftest.c",
            "robot_contract.c",
            "steps.json",
            "librobot.so",
            "contract.json",
        )
    ]
    contract = Contract.from_json(contents["robot/contract.json"].decode())
    steps = json.loads(contents["robot/steps.json"])
    assert contract.backend == "c" and contract.program == steps["program"]
    assert contract == archive.read_sealed(plain_robot_archive(), "it")
    assert steps["steps"]["sub_step"]["outputs"] == ["joint_targets", "memory.filtered.out"]


def test_the_same_file_gives_the_same_bytes_and_ticks_are_counted() -> None:
    made = built(compiler())
    assert made.archive == plain_robot_archive() and made.ticks == 12
    assert made.files() == built(compiler()).files()


def test_no_folder_of_this_machine_is_told() -> None:
    for name, data in members(plain_robot_archive()).items():
        assert b"/tmp" not in data and b"/home" not in data, name


def test_a_folder_has_the_same_files() -> None:
    made = built(compiler())
    in_archive = {name.partition("/")[2]: data for name, data in members(made.archive).items()}
    in_folder = made.files()
    assert set(in_folder) == set(in_archive)
    assert all(in_folder[name] == in_archive[name] for name in in_folder if name != "contract.json")
    assert Contract.from_json(in_folder["contract.json"].decode()).program == made.sources.contract.program


def test_a_library_that_computes_other_values_is_an_error_with_tick_and_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(which: Compiler, name: str, files: dict[str, bytes], units: list[str]) -> Any:
        changed = files["robot.c"].replace(b"0.3f", b"0.31f")
        assert changed != files["robot.c"]
        return compile_library(which, name, files | {"robot.c": changed}, units)

    monkeypatch.setattr(builder, "compile_library", wrong)
    with pytest.raises(VerificationError, match=r"nothing was written.*'joint_targets'.*\(tick 0\).*exploy compile"):
        built(compiler())


def test_the_self_test_in_the_library_must_agree_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "run_selftest", lambda library, name: 7)
    with pytest.raises(VerificationError, match=r"robot_selftest\(\) fails at tick 7"):
        built(compiler())


def test_a_file_without_a_trace_is_built_and_nothing_was_compared() -> None:
    made = built(compiler(), trace=None)
    assert made.ticks == 0 and made.library is not None
    assert builder.run_selftest(made.library, "robot") == -1


def test_without_a_compiler_there_are_sources_alone() -> None:
    made = built(None)
    assert made.library is None and made.ticks == 0
    assert json.loads(members(made.archive)["robot/steps.json"])["library"] is None
    assert not any(name.endswith(".so") for name in members(made.archive))


def test_sizes_that_are_open_become_one() -> None:
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", ("batch", 2)),),
        outputs=(Port("y", "float32", ("batch", 2)),),
        memories=(),
    )
    made = built(compiler(), made_by_hand([helper.make_node("Relu", ["x"], ["y"])], contract))
    assert [port.shape for port in made.sources.contract.inputs] == [(1, 2)]


@pytest.mark.parametrize(
    ("node", "dtype", "message"),
    [
        (helper.make_node("RandomNormalLike", ["x"], ["y"]), "float32", r"RandomNormalLike which draws random numbers"),
        (helper.make_node("Relu", ["x"], ["y"]), "float16", r"float16"),
        (helper.make_node("Det", ["x"], ["y"]), "float32", r"operator Det .*float32\[1, 2, 2\]"),
    ],
)
def test_what_cannot_be_written_is_refused(node: Any, dtype: str, message: str) -> None:
    shape = (1,) if node.op_type == "Det" else (1, 2, 2)
    contract = Contract(
        decimation=1, inputs=(Port("x", dtype, (1, 2, 2)),), outputs=(Port("y", dtype, shape),), memories=()
    )
    with pytest.raises(LoweringError, match=message):
        built(compiler(), made_by_hand([node], contract))


def test_names_of_ports_do_not_end_comments() -> None:
    name = "*/ int x; /*"
    contract = Contract(
        decimation=1,
        inputs=(Port(name, "float32", (1, 2), names=("*/", "a b"), unit="*/"),),
        outputs=(Port("y", "float32", (1, 2)),),
        memories=(),
    )
    made = built(compiler(), made_by_hand([helper.make_node("Relu", [name], ["y"])], contract))
    assert made.library is not None and name.encode() not in made.sources.files["robot.h"]


def test_a_trace_of_nan_and_infinity_is_compared() -> None:
    file = ModelFile.parse(made_by_hand([helper.make_node("Relu", ["x"], ["y"])], relu_contract()))
    trace = {"ticks": 2, "tolerance": 1e-4}
    x = np.array([[[np.nan, np.inf]], [[-np.inf, 2.0]]], np.float32)
    y = np.array([[[np.nan, np.inf]], [[0.0, 2.0]]], np.float32)
    good = dataclasses.replace(file.contract, trace=relu_trace(x, y, **trace))
    assert build(file.data, good, "relu", compiler()).ticks == 2
    bad = dataclasses.replace(file.contract, trace=relu_trace(x, np.abs(x), **trace))
    with pytest.raises(VerificationError, match=r"'y'.*\(tick 1\)"):
        build(file.data, bad, "relu", compiler())


def relu_contract() -> Contract:
    inputs, outputs = ((Port(name, "float32", (1, 2)),) for name in "xy")
    return Contract(decimation=1, inputs=inputs, outputs=outputs, memories=())


def relu_trace(x: np.ndarray, y: np.ndarray, **rest: Any) -> Any:
    return GoldenTrace(inputs={"x": encode_array(x)}, outputs={"y": encode_array(y)}, **rest)


def test_names_of_the_program_do_not_meet_those_of_ports_and_tables() -> None:
    table = np.arange(100, dtype=np.float32).reshape(1, 100)
    contract = Contract(
        decimation=1,
        inputs=(Port("no", "float32", (1, 100), names=("trace", "TRACE", *(f"e{index}" for index in range(98)))),),
        outputs=(Port("y", "float32", (1, 100)), Port("z", "float32", (1, 100))),
        memories=(),
    )
    nodes = [helper.make_node("Add", ["no", "tick"], ["y"]), helper.make_node("Mul", ["no", "robot_state"], ["z"])]
    made = built(compiler(), made_by_hand(nodes, contract, {"tick": table, "robot_state": table[:, ::-1] + 0.5}))
    header = made.sources.files["robot.h"].decode()
    assert "ROBOT_NO_TRACE (-1)" in header and "ROBOT_NO_TRACE_2 = 0" in header and "ROBOT_NO_TRACE_3 = 1" in header


@pytest.mark.parametrize(
    ("name", "expected"), [("math", "math_"), ("2-x y", "n2_x_y"), ("float", "float_"), ("", "value")]
)
def test_a_program_does_not_hide_a_header_of_the_system(name: str, expected: str) -> None:
    file = ModelFile.parse(plain_robot_file())
    made = build(file.data, file.contract, name, compiler())
    assert made.sources.program.name == expected and made.ticks == 12


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")
def test_the_library_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    path = tmp_path / "librobot.so"
    path.write_bytes(members(plain_robot_archive())["robot/librobot.so"])
    listed = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
    needed = {line.split()[-1].partition("@")[0] for line in listed.splitlines() if " w " not in line}
    assert needed <= {"memcpy", "memset", "memcmp", "memmove"}
