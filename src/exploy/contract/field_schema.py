"""How the contract's dataclasses describe their fields; the reader and the JSON Schema are derived from this.

The type of a field describes most of it. `Annotated` adds constraints on one value. `metadata` marks fields that a
document must have although the class has a default. `Part.check()` compares fields with each other.
"""

import dataclasses
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints, is_typeddict

from exploy.contract.limits import MAX_SECONDS, MAX_SIZE, MIN_SECONDS

UNKNOWN = "unknown"
"""Name of the field that keeps the additions of a newer minor version."""

REQUIRED = {"required": True, "stored": True}
"""Metadata of a field that readers require, although the class has a default."""

STORED = {"stored": True}
"""Metadata of a field that every stored document has, although readers do not require it."""


class Part:
    """A dataclass that is stored as an object in the document."""

    def check(self) -> None:
        """Compare fields with each other, after each has been read.

        Raises:
            ValueError: If they contradict each other.
        """


@dataclass(frozen=True, eq=False)
class Constraint:
    """A constraint on a value, in addition to its type.

    Args:
        keywords: The constraint in JSON Schema, where it can be expressed.
        read: Takes a value of the type and returns the value to keep. Raises ValueError or TypeError if it is invalid.
            None if there is nothing to check.
    """

    keywords: Mapping[str, Any]
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class FieldSchema:
    """A field of a part: its name, its type, whether readers require it, and whether stored documents have it."""

    name: str
    form: Any
    required: bool
    stored: bool


def is_part(form: Any) -> bool:
    """Return whether a type is a dataclass or TypedDict, which has fields of its own."""
    return isinstance(form, type) and (dataclasses.is_dataclass(form) or is_typeddict(form))


def fields_of(part: type) -> list[FieldSchema]:
    """Return the fields of a dataclass (except `unknown`), or of a TypedDict (all required)."""
    forms = get_type_hints(part, include_extras=True)
    if not dataclasses.is_dataclass(part):
        return [FieldSchema(name, form, required=True, stored=True) for name, form in forms.items()]
    return [_field_schema(item, forms[item.name]) for item in dataclasses.fields(part) if item.name != UNKNOWN]


def shown(value: Any) -> str:
    """Return a shortened repr of a value for a message, because values can be long."""
    return reprlib.repr(value)


def keywords(**values: Any) -> Constraint:
    """Create a constraint from JSON Schema keywords that the reader does not check."""
    return Constraint(values)


def matching(pattern: str, meaning: str) -> Constraint:
    """Create a constraint for strings that fully match a pattern."""
    compiled = re.compile(pattern)

    def read(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"{shown(value)} is not a {meaning}")
        return value

    return Constraint({"pattern": f"^{pattern}$"}, read)


def one_of(*words: str) -> Constraint:
    """Create a constraint for strings from a closed list."""

    def read(value: str) -> str:
        if value not in words:
            raise ValueError(f"{shown(value)} is not one of {', '.join(words)}")
        return value

    return Constraint({"enum": list(words)}, read)


def between(lowest: int, highest: int, meaning: str) -> Constraint:
    """Create a constraint for integers in a range, both ends included."""

    def read(value: int) -> int:
        if not lowest <= value <= highest:
            limit = "" if value < lowest else f" of at most {highest}"
            raise ValueError(f"{shown(value)} is not a {meaning}{limit}")
        return value

    return Constraint({"minimum": lowest, "maximum": highest}, read)


def at_most(count: int) -> Constraint:
    """Create a constraint on the number of items."""

    def read(values: Any) -> Any:
        if len(values) > count:
            raise ValueError(f"{len(values)} items are more than {count}")
        return values

    return Constraint({"maxItems": count}, read)


def _seconds(value: float) -> float:
    if not MIN_SECONDS <= value <= MAX_SECONDS:
        what = "greater than 0" if value <= 0 else f"between {MIN_SECONDS:g} and {MAX_SECONDS:g}"
        raise ValueError(f"{shown(value)} is not {what}")
    return value


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError(f"{shown(value)} is less than 0")
    return value


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("must not be empty")
    return values


def _all_different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) != len(values):
        raise ValueError(f"must not contain duplicates: {shown(values)}")
    return values


def _field_schema(item: "dataclasses.Field[Any]", form: Any) -> FieldSchema:
    has_default = item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING
    required = item.metadata.get("required", not has_default)
    return FieldSchema(item.name, form, required, item.metadata.get("stored", required))


Size = Annotated[int, between(0, MAX_SIZE, "size")]
Count = Annotated[int, between(1, MAX_SIZE, "positive integer")]
Seconds = Annotated[float, Constraint({"minimum": MIN_SECONDS, "maximum": MAX_SECONDS}, _seconds)]
NotNegative = Annotated[float, Constraint({"minimum": 0}, _not_negative)]
NOT_EMPTY = Constraint({"minItems": 1}, _some)
ALL_DIFFERENT = Constraint({"uniqueItems": True}, _all_different)
