"""Finds the line of user code that reads an attribute."""

import dis
import inspect
import types
from collections.abc import Iterable, Iterator

from exploy.live.location import describe, is_user_code

_READS = ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_METHOD")


def reading_line(codes: Iterable[types.CodeType], attribute: str) -> str:
    """The first line of the functions that reads an attribute or global with this name; empty if not found."""
    for code in codes:
        for instruction in dis.get_instructions(code):
            line = instruction.positions.lineno if instruction.positions is not None else None
            if instruction.opname in _READS and instruction.argval == attribute and line is not None:
                return describe(code, line)
    return ""


def codes_of_class(kind: type) -> Iterator[types.CodeType]:
    """The code of all methods and properties that user code defines in a class and its bases."""
    for owner in kind.__mro__:
        for item in vars(owner).values():
            function = inspect.unwrap(item.fget if isinstance(item, property) and item.fget else item)
            code = getattr(getattr(function, "__func__", function), "__code__", None)
            if isinstance(code, types.CodeType) and is_user_code(code):
                yield code
