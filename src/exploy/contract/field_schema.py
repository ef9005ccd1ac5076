"""How the dataclasses of the contract say what their fields hold: the reader and the JSON Schema follow from that.

A field's type says most. `Annotated` adds constraints on one value, `metadata` says which fields a document cannot
leave out although the class has a default, and `Part.check()` compares fields with each other.
"""

import dataclasses
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints, is_typeddict

UNKNOWN = "unknown"
"""Name of the field that keeps what a newer minor version has added."""

REQUIRED = {"required": True, "stored": True}
"""Metadata of a field that readers require, although the class has a default."""

STORED = {"stored": True}
"""Metadata of a field that every stored document has, although readers do without."""


class Part:
    """A dataclass that is an object in the document."""

    def check(self) -> None:
        """Compare fields with each other, after each has been read.

        Raises:
            ValueError: If they contradict each other.
        """


@dataclass(frozen=True, eq=False)
class Constraint:
    """What a type does not say about a value.

    Args:
        keywords: The constraint in JSON Schema, so far as it can be said there.
        read: Given a value of the type, returns the one to keep. Raises ValueError or TypeError where it does not fit.
            None where there is nothing that a reader could check.
    """

    keywords: Mapping[str, Any]
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class FieldSchema:
    """A field of a part, as documents have it: what it holds, and whether readers or stored documents must have it."""

    name: str
    form: Any
    required: bool
    stored: bool


def is_part(form: Any) -> bool:
    """Whether a type is an object with fields of its own."""
    return isinstance(form, type) and (dataclasses.is_dataclass(form) or is_typeddict(form))


def fields_of(part: type) -> list[FieldSchema]:
    """The fields of a dataclass but `unknown`, or of a TypedDict, whose fields are all required."""
    forms = get_type_hints(part, include_extras=True)
    if not dataclasses.is_dataclass(part):
        return [FieldSchema(name, form, required=True, stored=True) for name, form in forms.items()]
    return [_field_schema(item, forms[item.name]) for item in dataclasses.fields(part) if item.name != UNKNOWN]


def shown(value: Any) -> str:
    """A value for a message: shortened, since a document may hold anything."""
    return reprlib.repr(value)


def keywords(**values: Any) -> Constraint:
    """Keywords of JSON Schema that describe a value, and that the reader does not check."""
    return Constraint(values)


def matching(pattern: str, meaning: str) -> Constraint:
    """A string that is matched by a pattern as a whole."""
    compiled = re.compile(pattern)

    def read(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"{shown(value)} is no {meaning}")
        return value

    return Constraint({"pattern": f"^{pattern}$"}, read)


def _at_least(lowest: int, meaning: str) -> Constraint:
    def read(value: int) -> int:
        if value < lowest:
            raise ValueError(f"{shown(value)} is no {meaning}")
        return value

    return Constraint({"minimum": lowest}, read)


def _above_zero(value: float) -> float:
    if value <= 0:
        raise ValueError(f"{shown(value)} is not above 0")
    return value


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("there is none")
    return values


def _all_different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) != len(values):
        raise ValueError(f"not all are different: {shown(values)}")
    return values


def _field_schema(item: "dataclasses.Field[Any]", form: Any) -> FieldSchema:
    has_default = item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING
    required = item.metadata.get("required", not has_default)
    return FieldSchema(item.name, form, required, item.metadata.get("stored", required))


Size = Annotated[int, _at_least(0, "size")]
Count = Annotated[int, _at_least(1, "positive whole number")]
Seconds = Annotated[float, Constraint({"exclusiveMinimum": 0}, _above_zero)]
NOT_EMPTY = Constraint({"minItems": 1}, _some)
ALL_DIFFERENT = Constraint({"uniqueItems": True}, _all_different)
