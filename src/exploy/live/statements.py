"""Finds the statement of the source code that a frame is running."""

import ast
import bisect
import dis
import functools
import linecache
import os
import sys
import types
from dataclasses import dataclass

import torch

_CAPTURE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_FORWARDING = tuple(os.path.join(_TORCH, name) for name in ("overrides.py", "_tensor.py", "functional.py"))

Place = tuple[int, int]


@dataclass(frozen=True)
class Span:
    """A part of a source file: first and last place, as line and column."""

    start: Place
    stop: Place

    @classmethod
    def of(cls, *nodes: ast.AST) -> "Span":
        """The part from the first to the last of some syntax nodes."""
        first, last = nodes[0], nodes[-1]
        assert isinstance(first, ast.expr | ast.stmt) and isinstance(last, ast.expr | ast.stmt)
        assert last.end_lineno is not None and last.end_col_offset is not None
        return cls((first.lineno, first.col_offset), (last.end_lineno, last.end_col_offset))

    def contains(self, other: "Span") -> bool:
        """Whether another part lies within this one."""
        return self.start <= other.start and other.stop <= self.stop


def asking_frame() -> types.FrameType | None:
    """The frame that has called the torch function that is handled now; also one of torch's own Python code."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_CAPTURE, *_FORWARDING)):
        if frame.f_code.co_filename.startswith((_CAPTURE + "demo", _CAPTURE + "simulators")):
            break
        frame = frame.f_back
    return frame


def running_span(frame: types.FrameType) -> Span | None:
    """The part of the source that the current instruction of a frame comes from; None if unknown.

    Of a jump it is the value that decides about it, because some versions of Python place a jump at its statement.
    """
    instructions = _instructions(frame.f_code)
    position = bisect.bisect_right([item.offset for item in instructions], frame.f_lasti) - 1
    if position > 0 and ("JUMP" in instructions[position].opname or instructions[position].opname == "TO_BOOL"):
        position -= 1
    place = instructions[position].positions
    if place is None or None in (place.lineno, place.end_lineno, place.col_offset, place.end_col_offset):
        return None
    return Span((place.lineno, place.col_offset), (place.end_lineno, place.end_col_offset))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=64)
def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


def enclosing_test(frame: types.FrameType) -> ast.If | ast.Assert | None:
    """The innermost `if` or `assert` statement whose test a frame is computing; None if it is in no such test."""
    span, function = running_span(frame), enclosing_function(frame.f_code)
    if span is None or function is None:
        return None
    found = [node for node in _tests(function) if Span.of(node.test).contains(span)]
    innermost = max(found, key=lambda node: (node.test.lineno, node.test.col_offset), default=None)
    return innermost if isinstance(innermost, ast.If | ast.Assert) else None


def enclosing_statements(frame: types.FrameType) -> list[ast.stmt]:
    """All statements of a function that contain the running instruction, innermost last; empty if unknown."""
    span, function = running_span(frame), enclosing_function(frame.f_code)
    if span is None or function is None:
        return []
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]
    found = [node for node in nodes if Span.of(node).contains(span)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def enclosing_function(code: types.CodeType) -> ast.FunctionDef | None:
    """The definition of a function; None if its source is not available."""
    tree = parsed_file(code.co_filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def parsed_file(filename: str) -> ast.Module | None:
    """The syntax tree of a source file; None if it is not available."""
    source = "".join(linecache.getlines(filename))
    return _parsed(source) if source else None


@functools.lru_cache(maxsize=64)
def _tests(tree: ast.FunctionDef) -> tuple[ast.If | ast.Assert | ast.IfExp | ast.While, ...]:
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.If | ast.Assert | ast.IfExp | ast.While))
