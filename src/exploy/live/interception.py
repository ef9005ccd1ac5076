"""Calls of Python functions, seen without a profiler: by exchanging the code of the functions for a while."""

import contextlib
import gc
import types
from collections.abc import Callable, Iterable, Iterator

from exploy.environment.exchanged_code import calls_replaced

_NOT_PLAIN = 0x20 | 0x80 | 0x200  # flags of generators, coroutines and asynchronous generators

OnCall = Callable[[types.CodeType], None]


@contextlib.contextmanager
def intercepted(functions: Iterable[types.FunctionType], on_entry: OnCall, on_return: OnCall) -> Iterator[None]:
    """Call two functions with the code of each intercepted function: when it is entered, and when it returns.

    Works for a function however it is referenced (as a method, a stored bound method, a partial), since its code is
    exchanged and not the reference. It works under any profiler, debugger or coverage tool. A function that raises does
    not return.

    Args:
        functions: The functions, as `functions_with()` finds them.
        on_entry: Called before the function runs.
        on_return: Called after it has returned.
    """
    with contextlib.ExitStack() as stack:
        for function in functions:
            stack.enter_context(calls_replaced(function, _watched(function.__code__, on_entry, on_return)))
        yield


def functions_with(codes: Iterable[types.CodeType]) -> list[types.FunctionType]:
    """All functions with these codes that exist now, without generators and coroutines, which cannot be intercepted.

    Scans all objects of the process (some 20 ms), so keep the result.
    """
    wanted = {code for code in codes if is_plain(code)}
    found = gc.get_referrers(*wanted) if wanted else []
    return [item for item in found if type(item) is types.FunctionType and item.__code__ in wanted]


def is_plain(code: types.CodeType) -> bool:
    """Whether a function can be intercepted: it is neither a generator nor a coroutine."""
    return not code.co_flags & _NOT_PLAIN


def _watched(code: types.CodeType, on_entry: OnCall, on_return: OnCall) -> Callable[..., object]:
    def watched(original: Callable[..., object], *args: object, **kwargs: object) -> object:
        on_entry(code)
        result = original(*args, **kwargs)
        on_return(code)
        return result

    return watched
