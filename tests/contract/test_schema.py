"""The published JSON Schema describes what is in files, and refuses what the reader refuses."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from exploy.contract import Contract, GitCommit, Kind, Port, Provenance
from exploy.errors import ContractError
from exploy.runtime.model_file import ModelFile
from tests.support.files import cart_pole_file, reciprocal_file, recurrent_file, robot_file

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "contract.schema.json").read_text())
validator = jsonschema.Draft202012Validator(SCHEMA)


def document(data: bytes) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(ModelFile.parse(data).contract.to_json())
    return stored


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
            ),
            Port("is_init", "bool", ("batch", 1), kind=Kind.IS_INIT, limits=(0.0, None)),
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
