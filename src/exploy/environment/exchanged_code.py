"""Calls another function in place of a Python function, by exchanging the code of that function for a while."""

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def calls_replaced(function: types.FunctionType, replacement: Callable[..., Any]) -> Iterator[None]:
    """Call a replacement in place of a function, with the unchanged function as its first argument.

    Works for a function however it is referenced (as a method, a stored bound method, a partial), since its code is
    exchanged and not the reference. It works under any profiler, debugger or coverage tool. The code is put back at the
    end, also after an error.
    """
    code = function.__code__
    original = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__

    def call(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    function.__code__ = _calling(function, call)
    try:
        yield
    finally:
        function.__code__ = code


def _call_target(*args: object, **kwargs: object) -> object:
    target: object = "target"
    return target(*args, **kwargs)  # type: ignore[operator]


def _calling(function: types.FunctionType, target: Callable[..., object]) -> types.CodeType:
    """Code that calls a target, with as many free variables as the function has, which it does not read."""
    template = _call_target.__code__
    constants = tuple(target if constant == "target" else constant for constant in template.co_consts)
    return template.replace(co_consts=constants, co_freevars=function.__code__.co_freevars)
