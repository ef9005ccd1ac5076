"""What a contract may be at most, and JSON that only some readers would accept."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from exploy.contract import Contract, GoldenTrace, Port, StoredMemory, encode_array
from exploy.contract.limits import MAX_DECIMATION, MAX_DIMENSIONS, MAX_PORTS, MAX_TRACE_TICKS
from exploy.errors import ContractError

Document = dict[str, Any]


def document() -> Document:
    contract = Contract(
        decimation=4,
        inputs=(Port("x", "float32", (1, 2)), Port("m_in", "float32", (1,))),
        outputs=(Port("y", "float32", (1, 2)), Port("m_out", "float32", (1,))),
        memories=(StoredMemory("m", "m_in", "m_out", encode_array(np.zeros(1, np.float32))),),
        sim_dt=0.005,
        trace=GoldenTrace(3, {"x": encode_array(np.zeros((3, 1, 2), np.float32))}, {}, 1e-5),
    )
    found: Document = json.loads(contract.to_json())
    return found


def port(name: str, **fields: Any) -> Document:
    return {"name": name, "dtype": "float32", "shape": [1]} | fields


REFUSED: dict[str, tuple[Callable[[Document], Any], str]] = {
    "decimation": (lambda it: it.update(decimation=MAX_DECIMATION + 1), "decimation: 100001 is not a positive integer"),
    "huge decimation": (lambda it: it.update(decimation=10**400), "Contract.decimation"),
    "many ports": (
        lambda it: it["inputs"].extend(port(f"p{index}") for index in range(MAX_PORTS)),
        "10004 ports are more than 10000",
    ),
    "large ports": (lambda it: it["inputs"][0].update(shape=[2**29]), r"the ports have \d+ bytes, which is more than"),
    "large size": (lambda it: it["inputs"][0].update(shape=[2**63]), r"Port.shape"),
    "dimensions": (lambda it: it["inputs"][0].update(shape=[1] * (MAX_DIMENSIONS + 1)), "33 items are more than 32"),
    "duplicate input": (lambda it: it["inputs"].append(port("x")), "two inputs with the same name: 'x'"),
    "duplicate output": (lambda it: it["outputs"].append(port("y")), "two outputs with the same name: 'y'"),
    "duplicate memory": (lambda it: it["memories"].append(it["memories"][0]), "two memories with the same name: 'm'"),
    "shared memory": (
        lambda it: it["memories"].append(it["memories"][0] | {"name": "n", "input": "o"}),
        "two memories of one output: 'm_out'",
    ),
    "trace": (lambda it: it["trace"].update(ticks=MAX_TRACE_TICKS + 1), "GoldenTrace.ticks"),
    "endless trace": (
        lambda it: it["trace"].update(ticks=10**12, inputs={"x": {"dtype": "int8", "shape": [10**12, 0], "data": ""}}),
        "GoldenTrace.ticks",
    ),
    "tolerance": (lambda it: it["trace"].update(tolerance=-1.0), "less than 0"),
    "rate": (lambda it: it.update(sim_dt=5e-324), "between 1e-09 and 1e"),
    "array of another size": (lambda it: it["memories"][0]["initial"].update(shape=[7]), "cannot reshape"),
    "array of objects": (lambda it: it["memories"][0]["initial"].update(dtype="O"), "not a numeric dtype"),
    "array of text": (lambda it: it["memories"][0]["initial"].update(dtype="S4"), "not a numeric dtype"),
    "array of records": (lambda it: it["memories"][0]["initial"].update(dtype="f4,f4"), "not a numeric dtype"),
    "array that is no base64": (lambda it: it["memories"][0]["initial"].update(data="!"), "StoredMemory.initial"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_contract_beyond_a_limit_is_refused(what: str) -> None:
    change, message = REFUSED[what]
    changed = document()
    Contract.from_json(json.dumps(changed))
    change(changed)
    with pytest.raises(ContractError, match=message):
        Contract.from_json(json.dumps(changed))


def with_text(addition: str) -> str:
    return json.dumps(document())[:-1] + f", {addition}}}"


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ('"a": NaN', "NaN is not JSON"),
        ('"a": -Infinity', "-Infinity is not JSON"),
        ('"a": 1e400', "the number 1e400 is too large"),
        ('"a": ' + "9" * 5000, "ValueError"),
        ('"a": ' + "[" * 65 + "]" * 65, "more than 64 levels"),
        ('"a": ' + "[" * 100_000 + "]" * 100_000, "nested too deeply|more than 64 levels"),
        ('"a": ' + '{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply|more than 64 levels"),
        ('"decimation": 2', "has a key twice"),
        ('"a": "\\ud800"', "surrogates not allowed"),
        ('"\\ud800": 1', "surrogates not allowed"),
    ],
)
def test_json_that_readers_disagree_on_is_refused(addition: str, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        Contract.from_json(with_text(addition))


def test_a_limit_is_far_from_what_robots_need() -> None:
    large = document()
    large["inputs"][0]["shape"] = [4, 1080, 1920, 3]
    large["decimation"] = 1000
    large["unknown thing"] = [[[{"a": "Wärme ✓"}]]]
    assert Contract.from_json(json.dumps(large)).decimation == 1000
