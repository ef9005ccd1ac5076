"""The contract: what a file says about itself, as one JSON document."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from exploy.contract import (
    FORMAT_VERSION,
    Contract,
    Frozen,
    Port,
    Provenance,
    StoredMemory,
    UsedSubstitute,
    decode_array,
    digest,
    encode_array,
)
from exploy.errors import FileFormatError

reproducible = settings(derandomize=True, deadline=None, max_examples=150)

DTYPES = ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint64", "bool"]
arrays = st_numpy.arrays(
    dtype=st.sampled_from(DTYPES), shape=st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
)
shapes = st.lists(st.integers(0, 9), max_size=3).map(tuple)
ports = st.lists(
    st.builds(Port, st.text(), st.sampled_from(DTYPES), shapes), max_size=3, unique_by=lambda port: port.name
).map(tuple)
memories = st.lists(
    st.builds(StoredMemory, st.text(), st.text(), st.text(), arrays.map(encode_array), st.booleans(), st.booleans()),
    max_size=2,
    unique_by=(lambda memory: memory.name, lambda memory: memory.input, lambda memory: memory.output),
).map(tuple)
frozen = st.builds(Frozen, st.text(), st.sampled_from(DTYPES), shapes, arrays.map(digest))
substitutes = st.builds(UsedSubstitute, st.text(), st.text(), st.integers(1, 1000), st.floats(0, 1e3))
contracts = st.builds(
    Contract,
    decimation=st.integers(1, 1000),
    inputs=ports,
    outputs=ports,
    memories=memories,
    frozen=st.lists(frozen, max_size=2).map(tuple),
    unused_inputs=st.lists(st.text(), max_size=3).map(tuple),
    sub_step_inputs=st.dictionaries(st.text(), st.lists(st.text(), max_size=2), max_size=2),
    observation_names=st.lists(st.text(), max_size=3).map(tuple),
    substitutes=st.none() | st.lists(substitutes, min_size=1, max_size=2).map(tuple),
    provenance=st.builds(Provenance, versions=st.dictionaries(st.text(), st.text(), max_size=2)),
)


SECTIONS = ("inputs", "outputs", "memories", "frozen")


def example() -> Contract:
    return Contract(
        decimation=4,
        inputs=(Port("ctx.step_count", "int32", ()), Port("robot.pos", "float32", (1, 12))),
        outputs=(Port("actions", "float32", (1, 12)),),
        memories=(
            StoredMemory(
                name="actions",
                input="memory.actions.in",
                output="memory.actions.out",
                initial=encode_array(np.array([[0.1, -0.2]], dtype=np.float32)),
                carried=False,
                written_by_observations=True,
            ),
        ),
        frozen=(Frozen("env.gains", "float32", (12,), digest(np.ones(12, dtype=np.float32))),),
        unused_inputs=("robot.temperature",),
        sub_step_inputs={"robot.target": ["robot.pos"]},
        observation_names=("pos_0", "pos_1"),
        provenance=Provenance(versions={"torch": "2.13.0"}),
    )


def document(**changes: Any) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(example().to_json())
    return stored | changes


def refuse_constant(name: str) -> None:
    raise AssertionError(f"The document contains {name}, which is no JSON.")


def strict_json(text: str) -> Any:
    """Read JSON as the standard has it, without Python's NaN and Infinity."""
    return json.loads(text, parse_constant=refuse_constant)


# -- arrays ---------------------------------------------------------------------------------------------------


@reproducible
@given(arrays)
def test_an_array_survives_json_bit_by_bit(array: np.ndarray) -> None:
    stored = json.dumps(encode_array(array), allow_nan=False)
    result = decode_array(json.loads(stored))
    assert isinstance(result, np.ndarray)
    assert result.dtype == array.dtype
    assert result.shape == array.shape
    assert result.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array([np.nan, np.inf, -np.inf, -0.0]),
        np.array(np.nan, dtype=np.float32),
        np.array(True),
        np.array([True, False]),
        np.array([0.1, 1 / 3, np.pi, 5e-324, 1.7976931348623157e308]),
        np.array([2**63 - 1, -(2**63)]),
        np.zeros((0, 3), dtype=np.float32),
    ],
    ids=["nan and inf", "scalar nan", "scalar bool", "bool", "float64", "int64", "empty"],
)
def test_arrays_that_are_easily_spoiled_come_back_as_they_were(array: np.ndarray) -> None:
    result = decode_array(strict_json(json.dumps(encode_array(array))))
    np.testing.assert_array_equal(result, array, strict=True)
    assert result.tobytes() == array.tobytes()


def test_views_are_stored_by_their_elements_and_not_by_their_memory() -> None:
    whole = np.arange(12.0).reshape(3, 4)
    for view in (whole.T, whole[::2, ::-1], np.broadcast_to(np.float32(7), (2, 2)), np.asfortranarray(whole)):
        np.testing.assert_array_equal(decode_array(encode_array(view)), view, strict=True)


def test_a_decoded_array_can_be_written_to() -> None:
    encoded = encode_array(np.zeros(2))
    decode_array(encoded)[:] = 5.0
    assert decode_array(encoded).tolist() == [0.0, 0.0]


def test_the_digest_tells_values_apart_and_does_not_depend_on_the_layout_in_memory() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(array.copy())
    changed = array.copy()
    changed[1, 2] = np.nextafter(changed[1, 2], np.float32(np.inf))
    assert digest(changed) != digest(array)
    assert digest(array.T) != digest(array)


# -- the document ---------------------------------------------------------------------------------------------


@reproducible
@given(contracts)
def test_a_contract_comes_back_equal(contract: Contract) -> None:
    assert Contract.from_json(contract.to_json()) == contract


def test_what_comes_back_has_tuples_where_the_contract_has_them() -> None:
    contract = Contract.from_json(example().to_json())
    assert contract.inputs[1] == Port("robot.pos", "float32", (1, 12))
    assert contract.frozen[0].shape == (12,)
    assert isinstance(contract.unused_inputs, tuple)
    assert isinstance(contract.observation_names, tuple)


def test_the_value_that_a_memory_starts_from_is_stored_in_it() -> None:
    (memory,) = Contract.from_json(example().to_json()).memories
    expected = np.array([[0.1, -0.2]], dtype=np.float32)
    np.testing.assert_array_equal(memory.initial_value(), expected, strict=True)


@reproducible
@given(contracts)
def test_the_document_is_json_as_other_languages_read_it(contract: Contract) -> None:
    assert strict_json(contract.to_json())["decimation"] == contract.decimation


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_hold_is_not_written(value: float) -> None:
    broken = Contract(value, (), (), (), (), (), {}, ())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="JSON"):
        broken.to_json()


def test_the_document_tells_its_version() -> None:
    assert document()["format_version"] == FORMAT_VERSION


# -- reading what others wrote --------------------------------------------------------------------------------


def test_fields_that_this_version_does_not_know_are_kept_and_ignored() -> None:
    extended = document(format_version="1.99", signature=[1, 2])
    for item in (extended["provenance"], *(item for section in SECTIONS for item in extended[section])):
        item["colour"] = "green"
    contract = Contract.from_json(json.dumps(extended))
    assert contract.inputs[1].name == "robot.pos"
    assert contract.unknown == {"signature": [1, 2]}
    assert contract.inputs[1].unknown == contract.provenance.unknown == {"colour": "green"}
    assert json.loads(contract.to_json()) == extended


def test_a_newer_minor_version_is_read() -> None:
    major = FORMAT_VERSION.split(".")[0]
    contract = Contract.from_json(json.dumps(document(format_version=f"{major}.99")))
    assert contract.inputs == example().inputs
    assert contract.format_version == f"{major}.99"


def test_a_newer_major_version_is_refused_and_named() -> None:
    newer = f"{int(FORMAT_VERSION.split('.')[0]) + 1}.7"
    with pytest.raises(FileFormatError) as caught:
        Contract.from_json(json.dumps(document(format_version=newer)))
    assert newer in str(caught.value)
    assert FORMAT_VERSION in str(caught.value)
    assert "Update exploy" in str(caught.value)


def test_a_newer_major_version_may_look_quite_different() -> None:
    newer = f"{int(FORMAT_VERSION.split('.')[0]) + 1}.0"
    with pytest.raises(FileFormatError, match=newer):
        Contract.from_json(json.dumps({"format_version": newer, "signals": {}}))


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "{}", "3", '"text"', "no JSON at all", '{"format_version": 1}', '{"inputs": []}']
)
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(FileFormatError, match=r"exploy\.contract.*Export the file again"):
        Contract.from_json(text)


@pytest.mark.parametrize(
    "field",
    [
        "decimation",
        "inputs",
        "outputs",
        "memories",
        "frozen",
        "unused_inputs",
        "sub_step_inputs",
        "observation_names",
        "format_version",
    ],
)
def test_a_document_without_a_field_is_refused_and_the_field_named(field: str) -> None:
    incomplete = document()
    del incomplete[field]
    with pytest.raises(FileFormatError, match=field):
        Contract.from_json(json.dumps(incomplete))


@pytest.mark.parametrize("section", ["inputs", "outputs", "memories", "frozen"])
@pytest.mark.parametrize("broken", [None, 3, ["text"], [{}], [{"name": "x"}], [None]])
def test_a_section_that_is_no_list_of_its_items_is_refused(section: str, broken: Any) -> None:
    with pytest.raises(FileFormatError, match=r"exploy\.contract"):
        Contract.from_json(json.dumps(document(**{section: broken})))


@pytest.mark.parametrize(
    "changes",
    [
        {"decimation": "four"},
        {"decimation": 0},
        {"decimation": True},
        {"unused_inputs": "abc"},
        {"sub_step_inputs": 3},
        {"provenance": {"versions": None}},
        {"inputs": [{"name": 5, "dtype": "float32", "shape": []}]},
        {"inputs": [{"name": "x", "dtype": "float33", "shape": []}]},
        {"inputs": [{"name": "x", "dtype": "object", "shape": []}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [2], "names": ["a", "a"]}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [2], "names": ["a"]}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [2], "limits": [[0, 1]]}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [2], "gains": {"stiffness": [1.0]}}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": "ab"}]},
        {"memories": [{"name": "x", "input": "i", "output": "o", "initial": {}, "carried": False}]},
    ],
)
def test_fields_of_the_wrong_kind_are_refused(changes):
    document = json.loads(Contract(4, (), (), (), (), (), {}, ()).to_json())
    Contract.from_json(json.dumps(document))
    with pytest.raises(FileFormatError):
        Contract.from_json(json.dumps(document | changes))


def test_deeply_nested_garbage_is_refused():
    with pytest.raises(FileFormatError):
        Contract.from_json("[" * 100_000)
