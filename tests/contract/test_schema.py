"""The published JSON Schema describes what is in files, and refuses what the reader refuses."""

import copy
import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exploy.contract import (
    NO_DIGEST,
    Contract,
    Frozen,
    GitCommit,
    GoldenTrace,
    ObservationTerm,
    Port,
    PortKind,
    Provenance,
    StoredMemory,
    UsedSubstitute,
)
from exploy.errors import ContractError
from exploy.runtime.model_file import ModelFile
from tests.support.files import cart_pole_file, reciprocal_file, recurrent_file, robot_file
from tools import contract_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "contract.schema.json"
SCHEMA = json.loads(PUBLISHED.read_text(encoding="utf-8"))
PARTS: dict[str, type] = {
    "port": Port,
    "memory": StoredMemory,
    "frozen": Frozen,
    "substitute": UsedSubstitute,
    "term": ObservationTerm,
    "commit": GitCommit,
    "provenance": Provenance,
    "trace": GoldenTrace,
}
validator = jsonschema.Draft202012Validator(SCHEMA)


def document(data: bytes) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(ModelFile.parse(data).contract.to_json())
    return stored


def test_the_published_schema_is_the_one_of_the_dataclasses() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == contract_schema.text(), (
        "Run `python -m tools.contract_schema > docs/contract.schema.json`."
    )


@pytest.mark.parametrize(("name", "part"), [(None, Contract), *PARTS.items()])
def test_every_field_of_every_part_is_in_the_schema_and_described(name: str | None, part: Any) -> None:
    properties = (SCHEMA if name is None else SCHEMA["$defs"][name])["properties"]
    assert set(properties) == {field.name for field in dataclasses.fields(part)} - {"unknown"}
    assert all(value["description"] for value in properties.values())


def test_every_definition_is_a_part_or_an_array() -> None:
    assert set(SCHEMA["$defs"]) == {*PARTS, "array"}


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("file", [robot_file, cart_pole_file, recurrent_file, reciprocal_file])
def test_contracts_of_files_are_valid(file: Any) -> None:
    validator.validate(document(file()))


def test_a_contract_with_everything_in_it_is_valid() -> None:
    contract = Contract(
        decimation=2,
        inputs=(
            Port(
                "pos",
                "float32",
                ("batch", 2),
                kind="joint_position",
                names=("a", "b"),
                unit="rad",
                limits=((-1.0, 1.0), (None, 2.0)),
                frame="base",
                gains={"stiffness": (1.0, 2.0)},
                finite=False,
                source="estimated",
            ),
            Port("is_init", "bool", ("batch", 1), kind=PortKind.IS_INIT, limits=(0.0, None)),
        ),
        outputs=(),
        memories=(),
        sim_dt=0.005,
        provenance=Provenance({"torch": "2"}, "2026-01-01T00:00:00Z", {"run": 1}, 20, 11, GitCommit("abc", True)),
    )
    stored = json.loads(contract.to_json())
    validator.validate(stored)
    assert Contract.from_json(contract.to_json()) == contract


def test_every_field_of_the_contract_is_in_the_schema() -> None:
    stored = document(robot_file())
    assert set(stored) <= set(SCHEMA["properties"])
    for port in (*stored["inputs"], *stored["outputs"]):
        assert set(port) <= set(SCHEMA["$defs"]["port"]["properties"])
    assert set(stored["memories"][0]) == set(SCHEMA["$defs"]["memory"]["properties"])
    assert set(stored["trace"]) == set(SCHEMA["$defs"]["trace"]["properties"])
    assert set(stored["provenance"]) <= set(SCHEMA["$defs"]["provenance"]["properties"])


@pytest.mark.parametrize("field", SCHEMA["required"])
def test_what_the_schema_requires_the_reader_requires_too(field: str) -> None:
    incomplete = document(robot_file())
    del incomplete[field]
    assert not validator.is_valid(incomplete)
    if field != "digest":  # a contract that is not sealed yet has none
        with pytest.raises(ContractError, match=field):
            Contract.from_json(json.dumps(incomplete))


@pytest.mark.parametrize(
    "change",
    [
        {"decimation": 0},
        {"decimation": 1.5},
        {"sim_dt": 0},
        {"sim_dt": "fast"},
        {"inputs": [{"name": "x", "dtype": "float32"}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [-1]}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [1], "limits": [1]}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [1], "limits": ["low", "high"]}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [1], "finite": "yes"}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [1], "gains": {"stiffness": "high"}}]},
        {"inputs": [{"name": "x", "dtype": "float32", "shape": [1], "source": "encoder"}]},
        {"provenance": {"git": {"commit": "abc"}}},
        {"provenance": {"opset": 0}},
        {"trace": {"ticks": 0, "inputs": {}, "outputs": {}, "tolerance": 1}},
        {"observation_terms": [{"name": "x", "start": -1, "stop": 2}]},
        {"digest": "abc"},
        {"random_outputs": "actions"},
    ],
)
def test_what_the_schema_refuses_the_reader_refuses_too(change: dict[str, Any]) -> None:
    changed = document(robot_file()) | change
    assert not validator.is_valid(changed)
    with pytest.raises(ContractError):
        Contract.from_json(json.dumps(changed))


def test_the_digest_is_at_the_end_of_the_document() -> None:
    text = ModelFile.parse(robot_file()).contract.to_json()
    assert text.endswith(f'"digest":"{ModelFile.parse(robot_file()).contract.digest}"}}')


# -- any change of a document ---------------------------------------------------------------------------------

NAMES_OF_FIELDS = sorted({field.name for part in (Contract, *PARTS.values()) for field in dataclasses.fields(part)})
TEXTS = [
    "",
    "a",
    "measured",
    "1",
    "1.7",
    "2.0",
    "float32",
    ">f4",
    "object",
    "U3",
    "batch",
    "AAAAAA==",
    NO_DIGEST,
    NO_DIGEST + "\n",
]
NUMBERS = [0, 1, -1, 2, 4, 0.5, 1.0, -1.5, 1e308, 10**400, 2**63, float("nan"), float("inf")]
FORMS = [
    [0, 1],
    [None, None],
    [[0, 1]],
    [[0, 1], [None, 2]],
    ["a", "a"],
    [-1],
    [True],
    {"stiffness": [1, 2]},
    {"dtype": "float32", "shape": [1], "data": "AAAAAA=="},
    {"dtype": None, "shape": -1, "data": ""},
]
leaves = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS), st.sampled_from(FORMS))
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES_OF_FIELDS), inner, max_size=2),
    max_leaves=4,
)
changes = st.lists(st.tuples(st.integers(0, 10_000), st.booleans(), values), min_size=1, max_size=2)


@functools.cache
def everything() -> dict[str, Any]:
    """A document in which every field has a value."""
    stored = document(robot_file())
    port: dict[str, Any] = {
        "name": "q",
        "dtype": "float32",
        "shape": ["batch", 2],
        "kind": "k",
        "unit": "rad",
        "frame": "base",
        "source": "measured",
    }
    port |= {"names": ["a", "b"], "limits": [[0, 1], [None, 2]], "gains": {"stiffness": [1, 2]}, "finite": False}
    stored["inputs"].append(port)
    frozen = {"name": "f", "dtype": "int64", "shape": [2, 3], "sha256": "", "elements": [0, 5], "declared": "d"}
    stored["frozen"].append(frozen)
    stored["provenance"]["git"] = {"commit": "abc", "changed": True}
    return stored


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with each of its keys or positions."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    return [place for key in keys for place in ((node, key), *places(node[key]))]


@settings(derandomize=True, deadline=None, max_examples=500)
@given(changes)
def test_a_changed_document_is_refused_by_the_reader_or_accepted_by_both(changes: list[tuple[int, bool, Any]]) -> None:
    changed = copy.deepcopy(everything())
    for number, is_kept, value in changes:
        found = places(changed)
        container, key = found[number % len(found)]
        if is_kept:
            container[key] = copy.deepcopy(value)
        else:
            del container[key]
    try:
        Contract.from_json(json.dumps(changed))
    except ContractError:
        return
    validator.validate({"digest": NO_DIGEST} | changed)  # a contract that is not sealed yet has none
