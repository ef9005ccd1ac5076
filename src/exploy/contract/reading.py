"""Reads JSON into dataclasses, based on the types of their fields (see field_schema.py)."""

import functools
import math
import types
from collections.abc import Callable, Hashable, Mapping
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, is_typeddict

from exploy.contract.field_schema import UNKNOWN, Part, fields_of, is_part, shown

Read = Callable[[Any], Any]
_Part = TypeVar("_Part", bound=Part)

_MISFITS = (ValueError, TypeError, OverflowError, KeyError, AttributeError)  # includes what numpy and base64 raise


def read_part(kind: type[_Part], document: Any) -> _Part:
    """Create a part from a parsed JSON document. Fields that the class does not have are kept in `unknown`.

    Raises:
        ValueError, TypeError: If a required field is missing, or a field has an invalid value.
    """
    reader: Callable[[Any], _Part] = _reader(cast(Hashable, kind))
    return reader(document)


@functools.cache
def _reader(form: Any) -> Read:
    """Return a function that converts a JSON value to a type, or raises one of _MISFITS.

    Raises:
        TypeError: If contracts do not support the type.
    """
    if form in _PLAIN:
        return _PLAIN[form]
    if is_part(form):
        return _typed_dict(form) if is_typeddict(form) else _dataclass(form)
    container = _CONTAINERS.get(get_origin(form))
    if container is None:
        raise TypeError(f"Fields of type {form} cannot be read.")
    return container(*get_args(form))


def _dataclass(kind: type[Part]) -> Read:
    fields = [(field.name, _reader(field.form), field.required) for field in fields_of(kind)]
    known = {UNKNOWN, *(name for name, _, _ in fields)}

    def read(document: Any) -> Part:
        values: dict[str, Any] = {}
        _object(document)
        for name, read_value, required in fields:
            if name in document:
                values[name] = _read_field(kind, name, read_value, document[name])
            elif required:
                raise ValueError(f"{kind.__name__}.{name} is missing")
        values[UNKNOWN] = {name: value for name, value in document.items() if name not in known}
        part = kind(**values)
        part.check()
        return part

    return read


def _read_field(kind: type, name: str, read: Read, value: Any) -> Any:
    try:
        return read(value)
    except _MISFITS as error:
        raise ValueError(f"{kind.__name__}.{name}: {error}") from error


def _typed_dict(kind: type) -> Read:
    """Typed dictionaries are returned unchanged, including additional keys."""
    fields = [(field.name, _reader(field.form)) for field in fields_of(kind)]

    def read(document: Any) -> dict[str, Any]:
        values = _object(document)
        for name, read_value in fields:
            read_value(values[name])
        return values

    return read


def _constrained(form: Any, *constraints: Any) -> Read:
    steps = [_reader(form), *(constraint.read for constraint in constraints if constraint.read is not None)]

    def read(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return steps[0] if len(steps) == 1 else read


def _either(*forms: Any) -> Read:
    """Read the first type that matches; null is tried first if it is allowed."""
    reads = [_reader(form) for form in forms if form is not type(None)]
    nullable = type(None) in forms

    def read(value: Any) -> Any:
        if nullable and value is None:
            return None
        for read_value in reads[:-1]:
            try:
                return read_value(value)
            except _MISFITS:
                pass
        return reads[-1](value)

    return read


def _tuple(*forms: Any) -> Read:
    if forms[-1] is Ellipsis:
        read_item = _reader(forms[0])
        return lambda value: tuple(map(read_item, _listed(value)))
    reads = [_reader(form) for form in forms]

    def read(value: Any) -> tuple[Any, ...]:
        if len(_listed(value)) != len(reads):
            raise ValueError(f"{shown(value)} does not have {len(reads)} items")
        return tuple(read_item(item) for read_item, item in zip(reads, value, strict=True))

    return read


def _list(form: Any) -> Read:
    read_item = _reader(form)
    return lambda value: list(map(read_item, _listed(value)))


def _mapping(key: Any, form: Any) -> Read:
    """Keys are always strings in JSON, so the key type is not used."""
    read_item = _reader(form)
    return lambda value: {name: read_item(item) for name, item in _object(value).items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a string")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{shown(value)} is not an integer")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError(f"{shown(value)} is not a finite number")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{shown(value)} is not a boolean")
    return value


def _anything(value: Any) -> Any:
    return value


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{shown(value)} is not a list")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{shown(value)} is not an object")
    return value


_PLAIN: dict[Any, Read] = {str: _text, int: _whole, float: _number, bool: _flag, Any: _anything}
_CONTAINERS: dict[Any, Callable[..., Read]] = {
    Annotated: _constrained,
    Union: _either,
    types.UnionType: _either,
    tuple: _tuple,
    list: _list,
    Mapping: _mapping,
}
