"""Which line of the user's own code is running, or raised."""

import os
import sys
import types

import torch

import exploy.exporter

_INTERNAL = tuple(
    os.path.dirname(os.path.abspath(module.__file__ or "")) + os.sep for module in (torch, exploy.exporter)
)
UNKNOWN = "an unknown place"


def calling_line() -> str:
    """`file:line (in function)` of the innermost running frame that belongs to neither torch nor the exporter."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_user_code(frame.f_code):
            return _describe(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return UNKNOWN


def raising_line(error: BaseException) -> str:
    """`file:line (in function)` of the innermost frame of user code that an exception passed through."""
    traceback, place = error.__traceback__, UNKNOWN
    while traceback is not None:
        if _is_user_code(traceback.tb_frame.f_code):
            place = _describe(traceback.tb_frame.f_code, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def _is_user_code(code: types.CodeType) -> bool:
    return not code.co_filename.startswith(_INTERNAL) and not code.co_filename.startswith("<")


def _describe(code: types.CodeType, line: int) -> str:
    return f"{code.co_filename}:{line} (in {code.co_name})"
