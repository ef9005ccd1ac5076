"""Generators and iterators, whose position can be seen but not put back."""

import contextlib
import io
import types
import warnings
from collections.abc import Iterator
from typing import Any

_DEEP = 6


def is_bare_iterator(kind: type) -> bool:
    """Whether instances of a type are generators or iterators that keep their position outside of attributes."""
    try:
        is_iterator = issubclass(kind, Iterator) and not issubclass(kind, io.IOBase)
    except TypeError:  # a metaclass of user code
        return False
    return is_iterator and not kind.__dictoffset__ and not kind.__dict__.get("__slots__")


def position(iterator: Any) -> object:
    """A value that differs after the iterator has been advanced. The iterator itself is not advanced.

    Returns:
        The value; None for an iterator that does not tell.
    """
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        return "finished" if frame is None else (frame.f_lasti, _text(frame.f_locals))
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _text(iterator.__reduce__()[1:])
    return None


def _text(value: object, depth: int = _DEEP) -> str:
    """The contents of a state, without running user code."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if depth and isinstance(value, list | tuple):
        return f"({', '.join(_text(item, depth - 1) for item in value)})"
    if depth and isinstance(value, dict):
        return f"({', '.join(f'{key!s}: {_text(item, depth - 1)}' for key, item in value.items())})"
    if depth and is_bare_iterator(type(value)):
        return f"({position(value)})"
    return f"{type(value).__name__} {id(value)}"
