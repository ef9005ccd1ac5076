"""Archives of C run in the controller as ONNX files do, if they are trusted, whole, and for this machine."""

import dataclasses
import io
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from exploy.codegen.build import build
from exploy.contract import NO_DIGEST, Contract, Port
from exploy.errors import ContractError, FaultError, SignatureError
from exploy.runtime import Controller, Recorder, replay
from exploy.runtime.archives import archive
from exploy.runtime.c import machine
from exploy.runtime.model_file import ModelFile
from exploy.runtime.signing import new_key, sign_file
from tests.support.c_files import compiler, plain_robot_archive, plain_robot_file
from tests.support.files import made_by_hand, robot_inputs, write

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
Members = dict[str, bytes]


def resealed(change: Callable[[Members], None], **fields: Any) -> bytes:
    """The archive with changed members, other fields of the contract, and a digest that fits."""
    with zipfile.ZipFile(io.BytesIO(plain_robot_archive())) as file:
        members = {name: file.read(name) for name in file.namelist()}
    contract = Contract.from_json(members.pop("robot/contract.json").decode())
    change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return archive.seal(buffer.getvalue(), dataclasses.replace(contract, digest=NO_DIGEST, **fields), archive.PLAIN)


def described(**changes: Any) -> bytes:
    """The archive with other words about its library."""

    def change(members: Members) -> None:
        document = json.loads(members["robot/steps.json"])
        document["library"] |= changes
        members["robot/steps.json"] = json.dumps(document).encode()

    return resealed(change)


def test_it_runs_like_the_onnx_file_with_both_rates_and_resets() -> None:
    reference, controller = Controller.load(plain_robot_file()), Controller.load(plain_robot_archive(), allow_code=True)
    assert controller.selftest() == 12 and controller.contract.backend == "c"
    for tick in range(100):
        if tick in (37, 61):
            controller.reset()
            reference.reset()
        expected, got = (item.step(robot_inputs(tick)) for item in (reference, controller))
        assert list(got) == list(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=f"{name} at {tick}")


def test_two_controllers_do_not_share_anything() -> None:
    one, other = (Controller.load(plain_robot_archive(), allow_code=True) for _ in range(2))
    first = one.step(robot_inputs(1))
    one.step(robot_inputs(2))
    second = other.step(robot_inputs(1))
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value)


def test_logs_and_guards_work(tmp_path: Path) -> None:
    controller = Controller.load(plain_robot_archive(), allow_code=True)
    with Recorder(tmp_path / "run.npz", controller):
        for tick in range(20):
            controller.step(robot_inputs(tick))
    assert replay(tmp_path / "run.npz", Controller.load(plain_robot_archive(), allow_code=True)).ok
    with pytest.raises(FaultError, match=r"cmd.*is nan"):
        controller.step(robot_inputs(0) | {"cmd": np.array([[np.nan, 0.0]], np.float32)})


def test_a_status_is_a_fault() -> None:
    inputs = tuple(Port(name, "int32", (1,)) for name in ("x", "by"))
    contract = Contract(decimation=1, inputs=inputs, outputs=(Port("y", "int32", (1,)),), memories=())
    file = ModelFile.parse(made_by_hand([helper.make_node("Div", ["x", "by"], ["y"])], contract))
    controller = Controller.load(build(file.data, file.contract, "division", compiler()).archive, allow_code=True)
    assert controller.step({"x": np.array([7]), "by": np.array([2])})["y"].tolist() == [3]
    with pytest.raises(FaultError, match=r"The file cannot compute this step.*an integer is divided by zero"):
        controller.step({"x": np.array([7]), "by": np.array([0])})


def test_a_library_is_code_and_needs_trust(tmp_path: Path) -> None:
    path = write(plain_robot_archive(), tmp_path, "robot.c.zip")
    with pytest.raises(SignatureError, match=r"compiled code \(a library compiled from C\).*allow_code=True"):
        Controller.load(path)
    pytest.importorskip("cryptography")
    new_key(tmp_path / "a.key")
    sign_file(path, tmp_path / "a.key")
    assert Controller.load(path, trusted_keys=tmp_path / "a.pub").selftest() == 12


def test_it_needs_neither_torch_nor_onnx_nor_onnxruntime(tmp_path: Path) -> None:
    path = write(plain_robot_archive(), tmp_path, "robot.c.zip")
    code = f"""
import sys
from exploy.runtime import Controller
Controller.load({str(path)!r}, allow_code=True).selftest()
assert not {{"torch", "onnx", "onnxruntime"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert Controller.load(plain_robot_archive(), allow_code=True).selftest() == 12
    assert list(tmp_path.iterdir()) == []


def test_every_byte_counts() -> None:
    data = plain_robot_archive()
    for place in range(0, len(data), 397):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(ContractError):
            Controller.load(bytes(changed), allow_code=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": "plan9"}, r"is for x86_64 on plan9|is for aarch64 on plan9"),
        ({"architecture": "riscv64"}, r"is for riscv64 on"),
        ({"level": "x86-64-v99"}, r"needs a processor of the level x86-64-v99.*exploy compile"),
        ({"file": "missing.so"}, r"cannot be read"),
        ({"file": "robot.h"}, r"cannot be loaded"),
        ({"more": 1}, r"cannot be read"),
    ],
)
def test_a_library_for_another_machine_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        Controller.load(described(**changes), allow_code=True)


def test_without_the_instructions_of_a_library_the_error_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(level: str, message: str) -> None:
        with pytest.raises(ContractError, match=message):
            Controller.load(described(level=level), allow_code=True)

    avx2 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
    monkeypatch.setattr(machine, "_flags", lambda: frozenset(avx2 | {"avx512f"}))
    assert machine.levels() == ("x86-64-v3",)
    refused("x86-64-v4", r"level x86-64-v4 \(with AVX-512\), and this one is none")
    monkeypatch.setattr(machine, "_flags", lambda: frozenset({"sse2"}))
    assert machine.levels() == ()
    refused("x86-64-v3", r"level x86-64-v3 \(with AVX2\), and this one is none")


def test_a_library_of_another_program_is_refused() -> None:
    with pytest.raises(ContractError, match=r"not that of its contract.*exploy compile"):
        Controller.load(resealed(lambda members: None, program="1" * 64), allow_code=True)

    def exchange(members: Members) -> None:
        members["robot/librobot.so"] = other_library()

    with pytest.raises(ContractError, match=r"not that of its contract"):
        Controller.load(resealed(exchange), allow_code=True)


def other_library() -> bytes:
    """The library of a program of the same name with another rate."""
    file = ModelFile.parse(plain_robot_file())
    other = dataclasses.replace(file.contract, sim_dt=0.5)
    library = build(file.data, other, "robot", compiler()).library
    assert library is not None
    return library.data


def test_sources_alone_do_not_run() -> None:
    file = ModelFile.parse(plain_robot_file())
    made = build(file.data, file.contract, "robot", None).archive
    with pytest.raises(ContractError, match=r"no library.*nobody has run its self-test"):
        Controller.load(made, allow_code=True)


def test_steps_of_other_ports_are_refused() -> None:
    def change(members: Members) -> None:
        members["robot/steps.json"] = members["robot/steps.json"].replace(b'"cmd"', b'"dmc"')

    with pytest.raises(ContractError, match="other ports than its contract"):
        Controller.load(resealed(change), allow_code=True)


def test_an_archive_with_two_contracts_of_one_place_is_refused() -> None:
    def change(members: Members) -> None:
        members["other/contract.json"] = b"{}"

    with pytest.raises(ContractError, match="2 contracts"):
        Controller.load(resealed(change), allow_code=True)
