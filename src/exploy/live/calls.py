"""Which functions of the user's are called, and where they read an attribute."""

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
    """Call a function with the code of every function of the user's that is called meanwhile, on entry.

    Under a profiler such as cProfile, nothing is called.
    """

    def on_event(frame: types.FrameType, event: str, argument: object) -> None:
        if event == "call" and is_user_code(frame.f_code):
            function(frame.f_code)

    before = sys.getprofile()
    if before is not None and not callable(before):  # a profiler in C, which could not be put back
        yield
        return
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextlib.contextmanager
def counted_calls() -> Iterator[Calls]:
    """Count the calls of functions of the user's, in the order in which they are first called."""
    calls: Calls = Counter()
    with on_each_call(lambda code: calls.update([code])):
        yield calls


def reading_line(codes: Iterable[types.CodeType], attribute: str) -> str:
    """The first line of some functions that reads an attribute of that name; empty if none does."""
    for code in codes:
        for instruction in dis.get_instructions(code):
            line = instruction.positions.lineno if instruction.positions is not None else None
            if instruction.opname.startswith("LOAD_ATTR") and instruction.argval == attribute and line is not None:
                return describe(code, line)
    return ""
