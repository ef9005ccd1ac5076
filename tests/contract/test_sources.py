"""A file tells which inputs a robot measures, which it must estimate, and which it cannot have."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from exploy.contract import Contract, InputSource, Port, PortKind, StoredMemory, encode_array
from exploy.contract.sources import UNTOLD, inputs_by_source, source_notes
from exploy.errors import ContractError
from exploy.runtime.model_file import ModelFile
from tests.support.files import file_of_robot_in_simulation, robot_file


def port(name: str, source: str | None = None, kind: str | None = None) -> Port:
    return Port(name, "float32", (1, 2), kind=kind, source=source)


PORTS = (
    port("heights", InputSource.SIMULATOR),
    port("joints", InputSource.MEASURED),
    port("speed", InputSource.ESTIMATED),
    port("position", InputSource.ESTIMATED),
    port("smell"),
    port("twist", kind="command"),
    port("fresh", kind=PortKind.IS_INIT),
    port("ctx.step_count", kind=PortKind.STEP_COUNT),
)


def test_inputs_are_named_by_source_and_commands_need_none() -> None:
    assert inputs_by_source(PORTS) == {
        InputSource.SIMULATOR: ("heights",),
        InputSource.ESTIMATED: ("speed", "position"),
        InputSource.MEASURED: ("joints",),
        UNTOLD: ("smell",),
    }


def test_there_is_a_sentence_for_each_source_that_asks_something_of_the_robot() -> None:
    assert list(source_notes(PORTS).values()) == [
        "A robot cannot have heights: only a simulator knows it.",
        "An estimator must give speed, position: a robot does not measure them.",
        "It is not told whether a robot can have smell.",
    ]
    assert source_notes([port("joints", InputSource.MEASURED)]) == {}


def test_where_nothing_is_told_nothing_is_said() -> None:
    untold = [dataclasses.replace(item, source=None) for item in PORTS]
    assert inputs_by_source(untold) == source_notes(untold) == {}
    contract = ModelFile.parse(robot_file()).contract
    assert not contract.has_sources
    assert "source" not in str(contract) and '"source"' not in contract.to_json()


def test_an_exported_file_tells_what_its_environment_told() -> None:
    contract = ModelFile.parse(file_of_robot_in_simulation()).contract
    told = {item.name: item.source for item in contract.inputs if item.source is not None}
    assert told == {"joints.pos": "simulator", "joints.vel": "estimated"}
    assert Contract.from_json(contract.to_json()) == contract
    assert "source" in str(contract) and "estimated" in str(contract)


@pytest.mark.parametrize("source", ["encoder", "", "Measured", 1, ["measured"]])
def test_a_file_with_another_source_is_refused(source: Any) -> None:
    document = json.loads(Contract(1, (port("x", InputSource.MEASURED),), (), ()).to_json())
    document["inputs"][0]["source"] = source
    with pytest.raises(ContractError, match="source"):
        Contract.from_json(json.dumps(document))


def test_only_inputs_from_the_robot_have_a_source() -> None:
    memory = StoredMemory("m", "m.in", "m.out", encode_array(np.zeros((1, 2), np.float32)))
    told = port("y", InputSource.MEASURED)
    for contract in (
        Contract(1, (), (told,), ()),
        Contract(1, (dataclasses.replace(told, name="m.in"),), (), (memory,)),
    ):
        with pytest.raises(ContractError, match="has source, but is not an input from the robot"):
            Contract.from_json(contract.to_json())
