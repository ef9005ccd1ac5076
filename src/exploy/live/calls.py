"""Tracks calls of user functions, and finds the line where they read an attribute."""

import contextlib
import dis
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from exploy.live.location import describe, is_user_code

Calls = Counter[types.CodeType]


@contextlib.contextmanager
def on_each_call(function: Callable[[types.CodeType], None]) -> Iterator[None]:
    """Call `function` with the code object of every user function when it is entered.

    Has no effect if a profiler such as cProfile is active.
    """

    def on_event(frame: types.FrameType, event: str, argument: object) -> None:
        if event == "call" and is_user_code(frame.f_code):
            function(frame.f_code)

    before = sys.getprofile()
    if before is not None and not callable(before):  # a C profiler cannot be restored
        yield
        return
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextlib.contextmanager
def counted_calls() -> Iterator[Calls]:
    """Count the calls of user functions, in the order of their first call."""
    calls: Calls = Counter()
    with on_each_call(lambda code: calls.update([code])):
        yield calls


def reading_line(codes: Iterable[types.CodeType], attribute: str) -> str:
    """The first line of the functions that reads an attribute with this name; empty if not found."""
    for code in codes:
        for instruction in dis.get_instructions(code):
            line = instruction.positions.lineno if instruction.positions is not None else None
            if instruction.opname.startswith("LOAD_ATTR") and instruction.argval == attribute and line is not None:
                return describe(code, line)
    return ""
