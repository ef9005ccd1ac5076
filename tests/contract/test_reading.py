"""JSON becomes what the dataclasses say, or is refused."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from exploy.contract import Contract
from exploy.contract.field_schema import REQUIRED, Constraint, Part, Size
from exploy.contract.reading import read_part
from exploy.errors import ContractError


@dataclass(frozen=True)
class Leaf(Part):
    size: Size
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tree(Part):
    leaves: tuple[Leaf, ...]
    pair: tuple[int, str] = (0, "")
    mixed: list[Size | str] = field(default_factory=list)
    weight: float | None = None
    doubled: Annotated[int, Constraint({}, lambda value: 2 * value)] = 0
    by_name: Mapping[str, bool] = field(default_factory=dict, metadata=REQUIRED)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        if len(self.leaves) > 2:
            raise ValueError("too many leaves")


def tree(**fields: Any) -> Tree:
    return read_part(Tree, {"leaves": [], "by_name": {}} | fields)


def test_a_document_becomes_what_the_annotations_say() -> None:
    found = tree(leaves=[{"size": 3, "colour": "green"}], pair=[1, "a"], mixed=[2, "b"], weight=1, doubled=4, more=[])
    leaf = Leaf(3, unknown={"colour": "green"})
    assert found == Tree((leaf,), (1, "a"), [2, "b"], 1.0, 8, {}, unknown={"more": []})
    assert isinstance(found.weight, float)


def test_fields_that_are_missing_have_their_defaults() -> None:
    assert tree() == Tree(())
    assert tree(weight=None) == Tree(())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"leaves": None}, "Tree.leaves: None is not a list"),
        ({"leaves": [{"size": -1}]}, "Tree.leaves: Leaf.size: -1 is not a size"),
        ({"leaves": [{}]}, "Leaf.size is missing"),
        ({"leaves": [3]}, "3 is not an object"),
        ({"leaves": [{"size": 1}] * 3}, "too many leaves"),
        ({"pair": [1]}, "does not have 2 items"),
        ({"pair": [1, 2]}, "2 is not a string"),
        ({"mixed": [-1]}, "-1 is not a string"),
        ({"mixed": {}}, "is not a list"),
        ({"weight": "1"}, "is not a finite number"),
        ({"weight": True}, "is not a finite number"),
        ({"weight": float("nan")}, "is not a finite number"),
        ({"weight": 10**400}, "Tree.weight"),
        ({"doubled": 1.0}, "is not an integer"),
        ({"doubled": True}, "is not an integer"),
        ({"by_name": None}, "Tree.by_name: None is not an object"),
        ({"by_name": {"a": 1}}, "1 is not a boolean"),
    ],
)
def test_what_does_not_fit_is_refused_and_its_place_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree(**fields)


def test_a_field_may_be_required_although_the_class_has_a_default() -> None:
    with pytest.raises(ValueError, match=r"Tree\.by_name is missing"):
        read_part(Tree, {"leaves": []})


def test_a_message_shows_the_beginning_of_a_large_value() -> None:
    with pytest.raises(ValueError, match="is not a list") as caught:
        tree(leaves="x" * 100_000)
    assert len(str(caught.value)) < 200


def test_a_type_that_json_cannot_hold_is_no_field() -> None:
    @dataclass(frozen=True)
    class Odd(Part):
        value: set[int]

    with pytest.raises(TypeError, match=r"type set\[int\] cannot be read"):
        read_part(Odd, {"value": []})


def port(**fields: Any) -> str:
    stored = json.loads(Contract(1, (), (), ()).to_json())
    return json.dumps(stored | {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]} | fields]})


@pytest.mark.parametrize(
    "fields",
    [
        {"limits": []},
        {"shape": [0], "limits": []},
        {"limits": [0]},
        {"limits": [[0, 1], None]},
        {"shape": [], "limits": [[0, 1]]},
        {"shape": ["batch"], "names": ["a"]},
        {"names": ["a"], "gains": {"names": [1, 2]}},
        {"gains": {"stiffness": [1, float("nan")]}},
        {"limits": [0, 10**400]},
        {"shape": [True]},
        {"finite": None},
    ],
)
def test_ports_that_contradict_themselves_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ContractError):
        Contract.from_json(port(**fields))


@pytest.mark.parametrize("field", ["kind", "names", "unit", "limits", "frame", "gains"])
def test_null_stands_for_a_field_that_is_left_out(field: str) -> None:
    assert Contract.from_json(port(**{field: None})) == Contract.from_json(port())


def test_types_of_elements_are_named_as_numpy_names_them() -> None:
    assert Contract.from_json(port(dtype="f4")).inputs[0].dtype == "float32"


@pytest.mark.parametrize(
    "array",
    [
        None,
        [],
        {},
        {"dtype": "float32", "shape": [1]},
        {"dtype": "float32", "shape": [2], "data": "AAAAAA=="},
        {"dtype": "float32", "shape": [-1], "data": "AAAAAA=="},
        {"dtype": "float32", "shape": 1, "data": "AAAAAA=="},
        {"dtype": "float32", "shape": [10**30], "data": "AAAAAA=="},
        {"dtype": "float32", "shape": [1], "data": "AAAA"},
        {"dtype": "float32", "shape": [1], "data": "no base64"},
        {"dtype": "object", "shape": [0], "data": ""},
        {"dtype": None, "shape": [0], "data": ""},
        {"dtype": {"names": ["a"], "formats": ["f4"]}, "shape": [0], "data": ""},
    ],
)
def test_arrays_that_are_not_encoded_as_ours_are_refused(array: Any) -> None:
    stored = json.loads(Contract(1, (), (), ()).to_json())
    memory = {"name": "m", "input": "i", "output": "o", "carried": False, "written_by_observations": False}
    good = {"dtype": "float32", "shape": [1], "data": "AAAAAA=="}
    Contract.from_json(json.dumps(stored | {"memories": [memory | {"initial": good}]}))
    with pytest.raises(ContractError):
        Contract.from_json(json.dumps(stored | {"memories": [memory | {"initial": array}]}))
