"""Loading: what is refused before anything runs, and how clearly."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from exploy.contract import FORMAT_VERSION, METADATA_KEY, NO_DIGEST, Contract, Port, StoredMemory, encode_array
from exploy.errors import ContractError
from exploy.runtime import Controller
from exploy.runtime.model_file import ModelFile
from exploy.runtime.onnx.file import seal
from tests.support.files import made_by_hand, recurrent_file, robot_file, robot_inputs, write

fuzzed = settings(derandomize=True, deadline=None, max_examples=300)


def resealed(data: bytes, change: Any) -> bytes:
    """A file whose contract was changed, with a digest that fits."""
    model = onnx.load_from_string(data)
    (entry,) = [item for item in model.metadata_props if item.key == METADATA_KEY]
    document = json.loads(entry.value)
    change(document)
    digest = document.pop("digest", None)
    document["digest"] = NO_DIGEST
    assert digest
    entry.value = json.dumps(document, separators=(",", ":"))
    return seal(model.SerializeToString())


# -- what is no exploy file -----------------------------------------------------------------------------------


def foreign_model() -> bytes:
    value = [helper.make_tensor_value_info(name, 1, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:])
    return bytes(helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an ONNX file: it has no graph"),
        (b"joint_names: [hip, knee]\nkp: 20\n", "not an ONNX file, or is truncated or damaged"),
        (b"\x00" * 100, "not an ONNX file, or is truncated or damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "not an ONNX file"),
        (b'{"format_version": "1.0"}', "not an ONNX file"),
        (foreign_model(), "has no contract in its metadata.*Export it with exploy"),
    ],
    ids=["empty", "text", "zeros", "image", "json", "foreign"],
)
def test_what_is_no_exported_file_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = write(data, tmp_path, "thing.onnx")
    with pytest.raises(ContractError, match=message) as caught:
        Controller.load(path)
    assert "thing.onnx" in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"Cannot read .*missing\.onnx: No such file"):
        Controller.load(tmp_path / "missing.onnx")
    with pytest.raises(ContractError, match=r"Cannot read .*: Is a directory"):
        Controller.load(tmp_path)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(share: float) -> None:
    data = robot_file()
    with pytest.raises(ContractError):
        Controller.load(data[: int(share * len(data))])


# -- changes after the export ---------------------------------------------------------------------------------


def test_a_changed_weight_is_refused() -> None:
    model = onnx.load_from_string(robot_file())
    weight = next(item for item in model.graph.initializer if len(item.raw_data) > 64)
    values = bytearray(weight.raw_data)
    values[3] ^= 1
    weight.raw_data = bytes(values)
    with pytest.raises(ContractError, match=r"was changed after its export.*Copy the original again"):
        Controller.load(model.SerializeToString())


def test_changed_metadata_and_changed_nodes_are_refused() -> None:
    for change in (
        lambda model: helper.set_model_props(model, {"decimation": "2"}),
        lambda model: setattr(model, "producer_name", "somebody"),
        lambda model: model.graph.node.pop(),
    ):
        model = onnx.load_from_string(robot_file())
        change(model)
        with pytest.raises(ContractError):
            Controller.load(model.SerializeToString())


@fuzzed
@given(place=st.integers(0, len(robot_file()) - 1), bit=st.integers(0, 7))
def test_no_flipped_bit_is_accepted(place: int, bit: int) -> None:
    data = bytearray(robot_file())
    data[place] ^= 1 << bit
    with pytest.raises(ContractError):
        Controller.load(bytes(data))


@fuzzed
@given(data=st.binary(max_size=400))
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ContractError):
        Controller.load(data)


@fuzzed
@given(st.data())
def test_a_file_that_was_cut_and_glued_is_refused(data: st.DataObject) -> None:
    original = robot_file()
    start, stop = sorted(data.draw(st.lists(st.integers(0, len(original)), min_size=2, max_size=2, unique=True)))
    filling = data.draw(st.binary(max_size=32))
    changed = original[:start] + filling + original[stop:]
    if changed != original:
        with pytest.raises(ContractError):
            Controller.load(changed)


def test_a_second_contract_is_refused() -> None:
    model = onnx.load_from_string(robot_file())
    model.metadata_props.append(next(item for item in model.metadata_props if item.key == METADATA_KEY))
    with pytest.raises(ContractError, match="has 2 contracts"):
        Controller.load(model.SerializeToString())


def test_a_file_is_sealed_once() -> None:
    with pytest.raises(ContractError, match="sealed already"):
        seal(robot_file())
    assert ModelFile.parse(robot_file()).contract.digest != NO_DIGEST


# -- versions -------------------------------------------------------------------------------------------------


def test_a_newer_major_version_is_refused_with_the_version() -> None:
    newer = f"{int(FORMAT_VERSION.split('.')[0]) + 1}.0"
    data = resealed_raw(newer)
    with pytest.raises(ContractError, match=rf"version {newer}, but this exploy reads {FORMAT_VERSION}"):
        Controller.load(data)


def resealed_raw(version: str) -> bytes:
    """A file of another version; only the version itself can be understood."""
    text = robot_file().replace(
        f'"format_version":"{FORMAT_VERSION}"'.encode(), f'"format_version":"{version}"'.encode()
    )
    assert text != robot_file()
    return text


def test_fields_of_a_newer_minor_version_do_not_matter() -> None:
    major = FORMAT_VERSION.split(".")[0]

    def extend(document: dict[str, Any]) -> None:
        document["format_version"] = f"{major}.99"
        document["colour"] = {"of": "the robot"}
        document["inputs"][1]["colour"] = "green"

    controller = Controller.load(resealed(robot_file(), extend))
    assert controller.selftest()
    assert controller.contract.unknown == {"colour": {"of": "the robot"}}


@pytest.mark.parametrize(("opset", "ir_version"), [(99, 8), (18, 99)])
def test_a_file_that_onnxruntime_cannot_read_is_refused(opset: int, ir_version: int, monkeypatch: Any) -> None:
    import onnxruntime

    def change(model: onnx.ModelProto) -> None:
        model.ir_version = ir_version
        model.opset_import[0].version = opset

    contract = Contract(1, (Port("x", "float32", (1,)),), (Port("y", "float32", (1,)),), ())
    data = made_by_hand([helper.make_node("Neg", ["x"], ["y"])], contract, change=change)
    with pytest.raises(ContractError, match="onnxruntime"):
        Controller.load(data)
    monkeypatch.setattr(onnxruntime, "__version__", "1.20.1")
    with pytest.raises(
        ContractError,
        match=rf'opset {opset} and IR version {ir_version}; onnxruntime 1.20.1 .*target_onnxruntime="1.20"',
    ):
        Controller.load(data)


def test_without_onnxruntime_it_says_what_to_install(tmp_path: Path) -> None:
    path = write(robot_file(), tmp_path)
    code = f"""
import sys
sys.modules["onnxruntime"] = None
from exploy.errors import ContractError
from exploy.runtime import Controller, Guards, Recorder, replay, serve_rate
try:
    Controller.load({str(path)!r})
except ContractError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "needs onnxruntime" in result.stdout and "pip install onnxruntime" in result.stdout, result.stderr


# -- a contract that does not fit its graph -------------------------------------------------------------------


def without_input(document: dict[str, Any]) -> None:
    del document["inputs"][1]


def with_another_input(document: dict[str, Any]) -> None:
    document["inputs"].append({"name": "lidar", "dtype": "float32", "shape": [1, 3]})


def with_another_shape(document: dict[str, Any]) -> None:
    port = next(item for item in document["inputs"] if item["name"] == "joints.vel")
    port["shape"], port["names"] = [1, 5], ["a", "b", "c", "d", "e"]


def with_another_type(document: dict[str, Any]) -> None:
    next(item for item in document["outputs"] if item["name"] == "actions")["dtype"] = "float64"


def without_output(document: dict[str, Any]) -> None:
    document["outputs"] = [item for item in document["outputs"] if item["name"] != "obs"]


def with_another_name(document: dict[str, Any]) -> None:
    next(item for item in document["outputs"] if item["name"] == "joint_targets")["name"] = "targets"


def with_an_unknown_memory(document: dict[str, Any]) -> None:
    other = {"name": "other", "input": "memory.other.in", "output": "memory.other.out"}
    document["memories"].append(document["memories"][0] | other)


def with_a_memory_of_another_shape(document: dict[str, Any]) -> None:
    document["memories"][0]["initial"] = encode_array(np.zeros((7, 7), np.float32))


def with_a_memory_of_another_type(document: dict[str, Any]) -> None:
    document["memories"][0]["initial"] = encode_array(np.zeros((1, 3), np.float64))


def with_two_memories_of_one_name(document: dict[str, Any]) -> None:
    document["memories"][1]["name"] = document["memories"][0]["name"]


def with_another_decimation(document: dict[str, Any]) -> None:
    document["decimation"] = 2


MISFITS = {
    "input left out": (without_input, r"joints\.pos \(not in the contract, float32 \[1, 4\] in the graph\)"),
    "input added": (with_another_input, r"lidar \(float32 \[1, 3\] in the contract, not in the graph\)"),
    "other shape": (with_another_shape, r"joints\.vel \(float32 \[1, 5\] in the contract, float32 \[1, 4\] in the"),
    "other type": (with_another_type, r"actions \(float64 \[1, 3\] in the contract, float32 \[1, 3\] in the graph\)"),
    "output left out": (without_output, r"obs \(not in the contract"),
    "other name": (with_another_name, r"targets \(float32 \[1, 3\] in the contract, not in the graph\)"),
    "unknown memory": (with_an_unknown_memory, r"memory 'other'.*no output 'memory\.other\.out'"),
    "memory of other shape": (
        with_a_memory_of_another_shape,
        r"cannot be fed back: its initial value has shape \(7, 7\)",
    ),
    "memory of other type": (with_a_memory_of_another_type, "initial value has dtype float64"),
    "two memories": (with_two_memories_of_one_name, "two memories with the same name"),
    "decimation": (with_another_decimation, "decimation 2, but the graph runs its policy step every 4 ticks"),
}


@pytest.mark.parametrize("split", [True, False], ids=["two sessions", "one session"])
@pytest.mark.parametrize("misfit", MISFITS)
def test_a_contract_that_does_not_fit_its_graph_is_refused(misfit: str, split: bool) -> None:
    change, message = MISFITS[misfit]
    with pytest.raises(ContractError, match=message):
        Controller.load(resealed(robot_file(), change), split=split)


def test_a_trace_that_does_not_fit_the_ports_is_refused() -> None:
    def change(document: dict[str, Any]) -> None:
        del document["trace"]["inputs"]["cmd"]

    with pytest.raises(ContractError, match="golden trace does not match the ports"):
        Controller.load(resealed(robot_file(), change)).selftest()


def test_memories_that_differ_from_each_other_cannot_be_fed_back() -> None:
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (1,)), Port("h_in", "float32", (2,))),
        outputs=(Port("h_out", "float32", (1,)),),
        memories=(StoredMemory("h", "h_in", "h_out", encode_array(np.zeros(1, np.float32))),),
    )
    with pytest.raises(ContractError, match="'h_in' and 'h_out' have different dtypes or shapes"):
        Controller.load(made_by_hand([helper.make_node("Neg", ["x"], ["h_out"])], contract))


@fuzzed
@given(st.data())
def test_mutated_contracts_are_refused_or_work(data: st.DataObject) -> None:
    """Whatever a contract says, loading ends in a controller or in a ContractError, and never in anything else."""
    values = st.one_of(st.none(), st.booleans(), st.integers(-3, 10**12), st.text(max_size=5), st.just([]), st.just({}))

    def mutate(document: Any) -> None:
        container, key = document, data.draw(st.sampled_from(sorted(set(document) - {"digest", "format_version"})))
        for _ in range(data.draw(st.integers(0, 3))):
            inner = container[key]
            keys = (
                list(inner) if isinstance(inner, dict) else list(range(len(inner))) if isinstance(inner, list) else []
            )
            if not keys:
                break
            container, key = inner, data.draw(st.sampled_from(keys))
        container[key] = data.draw(values)

    try:
        changed = resealed(recurrent_file(), mutate)
        controller = Controller.load(changed)
    except ContractError:
        return
    assert isinstance(controller.step({"x": [1.0, 2.0]}), dict)


def test_the_contract_is_that_of_the_export() -> None:
    contract = Controller.load(robot_file()).contract
    assert contract == ModelFile.parse(robot_file()).contract
    assert dataclasses.replace(contract, digest=NO_DIGEST) != contract
    assert robot_inputs().keys() <= {port.name for port in contract.inputs}
