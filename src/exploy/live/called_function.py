"""Finds out which function of numpy or math the running line of user code calls."""

import ast
import linecache
import math
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

_LIBRARIES = {np: "np", np.linalg: "np.linalg", math: "math"}
_OTHER_NAMES = {"fabs": "abs", "concatenate": "cat", "absolute": "abs", "power": "pow", "mod": "remainder"}


def torch_function_instead(frame: types.FrameType | None) -> tuple[str, str] | None:
    """The function of numpy or math that a frame is calling, and the function of torch that does the same.

    Returns:
        Both names, such as `np.sin` and `torch.sin`; None if the frame calls no such function.
    """
    for function in _calls(frame) if frame is not None else ():
        found = _counterpart(function)
        if found is not None:
            return found
    return None


def _calls(frame: types.FrameType) -> Iterator[Any]:
    """The functions that the running instruction of a frame calls, innermost last."""
    positions = list(frame.f_code.co_positions())
    first, last, start, stop = positions[frame.f_lasti // 2]
    if first is None or last is None or start is None or stop is None:
        return
    lines = [linecache.getline(frame.f_code.co_filename, number) for number in range(first, last + 1)]
    if not all(lines):
        return
    lines[-1] = lines[-1].encode()[:stop].decode()
    lines[0] = lines[0].encode()[start:].decode()
    try:
        node = ast.parse(f"({''.join(lines)})", mode="eval").body
    except SyntaxError:
        return
    if isinstance(node, ast.Call):
        yield _value(node.func, frame)


def _value(node: ast.expr, frame: types.FrameType) -> Any:
    """The object that a name or an attribute of a module stands for; None if it is something else."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        return vars(owner).get(node.attr) if isinstance(owner, types.ModuleType) else None
    return None


def _counterpart(function: Any) -> tuple[str, str] | None:
    name = getattr(function, "__name__", "")
    for module, prefix in _LIBRARIES.items():
        if name and vars(module).get(name) is function:
            inner = prefix.partition(".")[2]
            other = _OTHER_NAMES.get(name, name)
            owner = getattr(torch, inner, None) if inner else torch
            if callable(getattr(owner, other, None)):
                return f"{prefix}.{name}", f"torch.{inner}.{other}" if inner else f"torch.{other}"
    return None
