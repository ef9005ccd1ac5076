"""Finds the line of user code that is running or that raised an exception."""

import inspect
import os
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterator

import numpy as np
import torch

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_NUMPY = os.path.dirname(os.path.abspath(np.__file__))
_INTERNAL = (_TORCH + os.sep, _NUMPY + os.sep, _PACKAGE + os.sep)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_TREATED_AS_USER_CODE = tuple(os.path.join(_PACKAGE, name) + os.sep for name in ("demo", "simulators"))
_STAGE_RUNNERS: set[str] = set()
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_WARP = tuple(f"{folder}warp{os.sep}" for folder in _INSTALLED)  # not imported here: few environments use it
_NO_OPERATORS = ("__call__", "__init__", "__post_init__", "__next__", "__iter__", "__enter__", "__exit__")
UNKNOWN = "unknown location"


def runs_stages(filename: str) -> None:
    """Register an exploy file that calls the stages of an environment. The search for a calling frame ends there."""
    _STAGE_RUNNERS.add(filename)


def calling_line() -> str:
    """`file:line (in function)` of the running line of user code; see `calling_frame()`."""
    frame = calling_frame()
    return UNKNOWN if frame is None else describe(frame.f_code, frame.f_lineno)


def calling_code() -> types.CodeType | None:
    """The innermost running function that belongs to neither torch nor the exporter; None if not found."""
    frame = _calling_frame()
    return None if frame is None else frame.f_code


def calling_codes() -> list[types.CodeType]:
    """All running functions that belong to neither torch nor the exporter, outermost first."""
    codes = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_code(frame.f_code):
            codes.append(frame.f_code)
        frame = frame.f_back
    return codes[::-1]


def call_site(outermost: types.CodeType) -> tuple[tuple[types.CodeType, int], ...]:
    """The running functions of user code, innermost first, with the position in the code of each.

    Two calls of a function from the same line of a loop have the same call site, calls from two lines have not.

    Args:
        outermost: The function at which the search ends.
    """
    site = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not outermost:
        if is_user_code(frame.f_code):
            site.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(site)


def frames_of_stage(frame: types.FrameType) -> Iterator[types.FrameType]:
    """A frame and the frames of user code that have called it, up to the exporter, which runs the stage."""
    outer: types.FrameType | None = frame
    while outer is not None and outer.f_code.co_filename not in _STAGE_RUNNERS:
        if is_user_code(outer.f_code):
            yield outer
        outer = outer.f_back


def definition(function: object) -> str:
    """`file:line (in function)` of the definition of a user function or method."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return describe(code, code.co_firstlineno) if isinstance(code, types.CodeType) else UNKNOWN


def _calling_frame() -> types.FrameType | None:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code):
        if frame.f_code.co_filename in _STAGE_RUNNERS:
            return None  # called by the exporter itself
        frame = frame.f_back
    return frame


def calling_frame() -> types.FrameType | None:
    """The innermost running frame of user code; None if not found.

    Installed packages count only if no other user code is running, exploy's adapters of simulators only if no installed
    package is, and operators such as `__getitem__` only if no other function is: these are wrappers around what the
    user reads.
    """
    best, frame = None, _calling_frame()
    while frame is not None and frame.f_code.co_filename not in _STAGE_RUNNERS:
        if is_user_code(frame.f_code):
            if best is None or _preference(frame.f_code) > _preference(best.f_code):
                best = frame
            if _preference(frame.f_code) == _BEST:
                break
        frame = frame.f_back
    return best


_BEST = (True, True, True)


def _preference(code: types.CodeType) -> tuple[bool, bool, bool]:
    is_operator = code.co_name.startswith("__") and code.co_name.endswith("__") and code.co_name not in _NO_OPERATORS
    is_ours = code.co_filename.startswith(_PACKAGE + os.sep)
    return not is_ours, not is_installed(code.co_filename), not is_operator


def is_installed(filename: str) -> bool:
    """Whether a file belongs to an installed package."""
    return any(folder in filename for folder in _INSTALLED)


def raising_line(error: BaseException) -> str:
    """`file:line (in function)` of the innermost frame of user code that an exception passed through."""
    place = UNKNOWN
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_user_code(frame.f_code):
            place = describe(frame.f_code, line)
    return place


def is_raised_by_user_code(error: BaseException) -> bool:
    """Whether the innermost frame that an exception passed through is user code."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and is_user_code(frames[-1].f_code)


def is_user_code(code: types.CodeType) -> bool:
    """Whether a function belongs to user code: not to torch, numpy, Warp, the standard library or exploy."""
    return not is_internal(code.co_filename) and not code.co_filename.startswith("<")


def is_internal(filename: str) -> bool:
    """Whether a file belongs to torch, numpy, Warp, the standard library or exploy."""
    if filename.startswith(_TREATED_AS_USER_CODE):
        return False
    is_standard = filename.startswith(_STANDARD_LIBRARY) and "-packages" not in filename
    return is_standard or filename.startswith(_INTERNAL) or any(folder in filename for folder in _WARP)


def describe(code: types.CodeType, line: int) -> str:
    """Format a code location as `file:line (in function)`, for messages."""
    return f"{code.co_filename}:{line} (in {code.co_name})"
