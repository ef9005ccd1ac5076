"""Parses JSON from files, and accepts only what everybody reads alike."""

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

from exploy.contract.limits import MAX_JSON_DEPTH


def parse_json(text: str | bytes, max_bytes: int) -> Any:
    """Parse a document.

    Raises:
        ValueError: If it is not JSON, is too long or too deep, has an object with a key twice, a number that is not
            finite, or text that is not Unicode.
    """
    if len(text) > max_bytes:
        raise ValueError(f"{len(text)} bytes of JSON are more than {max_bytes}")
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    _require_shallow(document)
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object of the JSON has a key twice")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


def _require_shallow(document: Any) -> None:
    """Check the depth of a document, level by level, and all of its text."""
    level = [document]
    for _ in range(MAX_JSON_DEPTH + 1):
        if not level:
            return
        level = [item for value in level for item in _inside(value)]
    raise ValueError(f"the JSON has more than {MAX_JSON_DEPTH} levels")


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        if not value.isascii():
            value.encode()  # raises a ValueError for half of a surrogate pair
    elif isinstance(value, dict):
        for name in value:
            if not name.isascii():
                name.encode()
        yield from value.values()
    elif isinstance(value, list):
        yield from value
