"""The files of a program: they compile without warnings, agree among each other, and test themselves."""

import ctypes
import dataclasses
import functools
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from exploy.codegen.number_tables import LARGEST_AS_NUMBERS
from exploy.codegen.program import Program, write_program
from exploy.codegen.sources import Sources, write_sources
from exploy.contract import Contract, GoldenTrace, Port, encode_array
from exploy.errors import LoweringError
from exploy.runtime.model_file import ModelFile
from tests.support.c_files import plain_robot_file
from tests.support.c_programs import FLAGS, OPSET, WARNINGS

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


@functools.cache
def robot_program(golden_trace: bool = True) -> Program:
    file = ModelFile.parse(plain_robot_file(golden_trace=golden_trace))
    return write_program(file.data, file.contract, "robot", outline=file.outline)


def compiled(sources: Sources, folder: Path) -> ctypes.CDLL:
    for name, data in sources.files.items():
        (folder / name).write_bytes(data)
    command = ["gcc", *FLAGS, *WARNINGS, "-fPIC", "-shared", "-o", "lib.so", *sources.units, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "lib.so"))


def selftest(library: ctypes.CDLL, name: str = "robot") -> int:
    return int(library[f"{name}_selftest"](ctypes.create_string_buffer(1 << 20)))


def text_of(library: ctypes.CDLL, name: str) -> str:
    function = library[name]
    function.restype = ctypes.c_char_p
    return str(function().decode())


def test_the_files_compile_without_warnings_and_pass_their_self_test(tmp_path: Path) -> None:
    sources = write_sources(robot_program())
    assert list(sources.files) == [
        "robot.h",
        "robot.c",
        "robot_weights.c",
        "robot_selftest.c",
        "robot_contract.c",
    ]
    assert selftest(compiled(sources, tmp_path)) == 0


def test_header_library_and_contract_have_one_digest(tmp_path: Path) -> None:
    sources = write_sources(robot_program())
    digest = sources.contract.program
    assert digest is not None and f'#define ROBOT_DIGEST "{digest}"' in sources.files["robot.h"].decode()
    library = compiled(sources, tmp_path)
    assert text_of(library, "robot_digest") == digest
    stored = Contract.from_json(text_of(library, "robot_contract"))
    assert stored == dataclasses.replace(sources.contract, trace=None) and stored.backend == "c"


def test_the_digest_is_of_the_program_and_not_of_the_day() -> None:
    program = robot_program()
    other_day = dataclasses.replace(program.contract.provenance, date="2001-01-01T00:00:00Z")
    later = dataclasses.replace(program, contract=dataclasses.replace(program.contract, provenance=other_day))
    digests = [write_sources(item).contract.program for item in (program, later)]
    assert digests[0] == digests[1]
    other = dataclasses.replace(program, contract=dataclasses.replace(program.contract, sim_dt=0.001))
    assert write_sources(other).contract.program != digests[0]


@pytest.mark.parametrize(("tick", "off"), [(1, 1e-3), (6, 1e-3), (12, np.nan), (12, np.inf)])
def test_the_self_test_names_the_first_tick_that_differs(tick: int, off: float, tmp_path: Path) -> None:
    program = robot_program()
    trace = program.contract.trace
    assert trace is not None and trace.ticks == 12
    outputs = trace.output_arrays()
    outputs["joint_targets"][tick - 1, 0, 1] += off
    changed = dataclasses.replace(trace, outputs={name: encode_array(item) for name, item in outputs.items()})
    changed_program = dataclasses.replace(program, contract=dataclasses.replace(program.contract, trace=changed))
    assert selftest(compiled(write_sources(changed_program), tmp_path)) == tick


def test_errors_within_the_tolerance_pass(tmp_path: Path) -> None:
    program = robot_program()
    trace = program.contract.trace
    assert trace is not None
    outputs = {name: item + np.float32(0.9e-4) for name, item in trace.output_arrays().items()}
    changed = dataclasses.replace(trace, outputs={name: encode_array(item) for name, item in outputs.items()})
    changed_program = dataclasses.replace(program, contract=dataclasses.replace(program.contract, trace=changed))
    assert selftest(compiled(write_sources(changed_program), tmp_path)) == 0


def test_without_a_trace_the_self_test_says_so(tmp_path: Path) -> None:
    sources = write_sources(robot_program(golden_trace=False))
    assert "#define ROBOT_NO_TRACE (-1)" in sources.files["robot.h"].decode()
    assert selftest(compiled(sources, tmp_path)) == -1


def test_a_trace_of_other_ports_is_refused() -> None:
    program = robot_program()
    trace = program.contract.trace
    assert trace is not None
    short = dataclasses.replace(trace, inputs={"cmd": trace.inputs["cmd"]})
    with pytest.raises(LoweringError, match="trace does not match the ports"):
        write_sources(dataclasses.replace(program, contract=dataclasses.replace(program.contract, trace=short)))


def test_the_header_is_one_for_c_plus_plus_too(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    sources = write_sources(robot_program())
    for name, data in sources.files.items():
        (tmp_path / name).write_bytes(data)
    main = """
#include "robot.h"
#include <cstring>
int main() {
  static robot_state state;
  if (robot_selftest(&state) != 0 || std::strcmp(robot_digest(), ROBOT_DIGEST) != 0) { return 1; }
  robot_inputs in{};
  robot_outputs out{};
  for (int tick = 0; tick < ROBOT_DECIMATION + 1; tick++) {
    if (robot_tick(&state, &in, &out) != ROBOT_OK) { return 2; }
  }
  return out.joint_targets[ROBOT_JOINT_TARGETS_TOE] != 0.0F ? 0 : 3;
}
"""
    (tmp_path / "main.cpp").write_text(main)
    for command in (
        ["gcc", *FLAGS, *WARNINGS, "-c", *sources.units],
        ["g++", "-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", "main.cpp"]
        + [unit.replace(".c", ".o") for unit in sources.units]
        + ["-o", "main"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


def wide_program(rows: int, columns: int) -> Program:
    """A matrix with `rows` times `columns` parameters, and a trace of two ticks."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(rows, columns)).astype(np.float32)
    x = rng.normal(size=(2, 1, rows)).astype(np.float32)
    y = x @ weights + 1
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    values = {"w": weights, "b": np.ones(columns, np.float32)}
    inputs, outputs = (
        [helper.make_tensor_value_info(name, 1, (1, size))] for name, size in (("x", rows), ("y", columns))
    )
    stored = [helper.make_tensor(name, 1, item.shape, item.tobytes(), raw=True) for name, item in values.items()]
    graph = helper.make_graph([node], "wide", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (1, rows)),),
        outputs=(Port("y", "float32", (1, columns)),),
        memories=(),
        trace=GoldenTrace(2, {"x": encode_array(x)}, {"y": encode_array(y)}, 1e-4),
    )
    return write_program(model.SerializeToString(), contract, "wide")


def test_many_weights_are_a_file_of_bytes_or_numbers_where_that_is_impossible(tmp_path: Path) -> None:
    program = wide_program(1001, 1000)
    sources = write_sources(program)
    assert LARGEST_AS_NUMBERS < 1001 * 1000
    assert len(sources.files["wide_weights.bin"]) >= 4 * 1001 * 1000 and len(sources.files["wide_weights.c"]) < 4000
    assert selftest(compiled(sources, tmp_path), "wide") == 0
    elsewhere = ["gcc", *FLAGS, f"-I{tmp_path}", f"-Wa,-I{tmp_path}", "-c", f"{tmp_path}/wide_weights.c"]
    (tmp_path / "other").mkdir()
    subprocess.run(elsewhere, cwd=tmp_path / "other", check=True)
    portable = write_sources(program, as_numbers=True)
    assert "wide_weights.bin" not in portable.files and len(portable.files["wide_weights.c"]) > 4 * 1001 * 1000


def test_few_weights_as_numbers_or_bytes_are_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = wide_program(30, 20)
    for name, largest in (("numbers", 1000), ("bytes", 100)):
        monkeypatch.setattr("exploy.codegen.weights_source.LARGEST_AS_NUMBERS", largest)
        folder = tmp_path / name
        folder.mkdir()
        sources = write_sources(program)
        assert ("wide_weights.bin" in sources.files) is (name == "bytes")
        assert selftest(compiled(sources, folder), "wide") == 0
