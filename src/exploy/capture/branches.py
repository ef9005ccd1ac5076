"""Decides about branches on traced values: which are dropped, which are taken, which are refused.

An `assert`, and an `if` that only raises or prints, is dropped: the file does not check. An `if mask.any():` is taken
if its body only writes through that mask, because these writes do nothing where the mask has no true element.
Everything else stays an error.
"""

import ast
import builtins
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import fx

from exploy.capture.branch_bodies import only_reports, selections, what_else
from exploy.capture.recording import INDEXING, MASKED_BY, WHERE, Recording, mutated_arguments
from exploy.capture.same_values import SameValues
from exploy.live.location import calling_line, describe, frames_of_stage
from exploy.live.statements import (
    Span,
    asking_frame,
    enclosing_function,
    enclosing_statements,
    enclosing_test,
    running_span,
)

_aten = torch.ops.aten
_ANY = (_aten.any.default, _aten.any.dim, _aten.any.dims, _aten.max.default, _aten.amax.default)
_COUNTS = (_aten.sum.default, _aten.sum.dim_IntList, _aten.count_nonzero.default, _aten.count_nonzero.dim_IntList)
_POSITIVE = {(ast.Gt, 0), (ast.NotEq, 0), (ast.GtE, 1)}
_NEGATIVE = {(ast.Eq, 0), (ast.Lt, 1), (ast.LtE, 0)}
_ABOVE_ZERO = {(_aten.gt.Scalar, 0), (_aten.ne.Scalar, 0), (_aten.ge.Scalar, 1)}
_FILLS = (_aten.masked_fill_.Scalar, _aten.masked_fill_.Tensor)


@dataclass
class _Taken:
    """A branch that is being executed although its mask may have no true element."""

    frame: types.FrameType
    body: Span
    mask: fx.Node
    before: fx.Node
    where: str
    selections: dict[Span, list[fx.Node]]  # calls of torch.where() that set variables, and what was recorded before


class Branches:
    """Answers the questions that Python asks about traced values in tests of statements.

    Args:
        recording: The recording under way; its `dropped_checks` are filled.
        refuse: Raises the error with its message.
    """

    def __init__(self, recording: Recording, refuse: Callable[[str], NoReturn]):
        self._recording = recording
        self._refuse = refuse
        self._taken: list[_Taken] = []

    def drops_question(self) -> bool:
        """Whether the value that is asked for only decides if an error is raised or a text is printed."""
        frame = asking_frame()
        if frame is None:
            return False
        test = enclosing_test(frame)
        if test is None or not _is_check(test, frame):
            return _is_part_of_report(frame)
        self._recording.note_dropped_check(calling_line())
        return True

    def has_true(self, tensor: torch.Tensor) -> bool:
        """Whether a question about a tensor is one whether a mask has a true element, in front of masked writes."""
        if not self._recording.is_traced(tensor):
            return False
        mask, is_count = self._mask_of(self._recording.node_of(tensor), tensor)
        return mask is not None and self._is_taken(mask, is_count)

    def has_rows(self, mask: torch.Tensor) -> bool:
        """Whether a question about the number of selected elements is one in front of masked writes."""
        return self._is_taken(self._recording.node_of(mask), is_count=True)

    def advance(self, name: str) -> None:
        """Check the branches whose bodies have ended, before a torch function of this name is called.

        Raises:
            DataDependentError: If a body has written to a tensor without its mask.
        """
        while self._taken and not _is_running(self._taken[-1]):
            self._close(self._taken.pop())
        for taken in self._taken if name == "where" else []:
            span = running_span(taken.frame)
            if span in taken.selections:
                taken.selections[span].append(self._last_node())

    def finish(self) -> None:
        """Check the branches that are left, at the end of the recorded function."""
        while self._taken:
            self._close(self._taken.pop())

    def _is_taken(self, mask: fx.Node, is_count: bool) -> bool:
        frame = asking_frame()
        test = enclosing_test(frame) if frame is not None else None
        span = running_span(frame) if frame is not None else None
        if frame is None or span is None or not isinstance(test, ast.If):
            return False
        sign = _sign(test.test, span, is_count)
        body = _body(test, sign, frame) if sign is not None else None
        if not body:
            return False
        where = describe(frame.f_code, test.lineno)
        other = what_else(body, frame)
        if other is not None:
            self._refuse(_message(where, other))
        chosen: dict[Span, list[fx.Node]] = {Span.of(item.value): [] for item in selections(body, frame)}
        self._taken.append(_Taken(frame, Span.of(*body), mask, self._last_node(), where, chosen))
        return True

    def _last_node(self) -> fx.Node:
        last: fx.Node = next(iter(reversed(self._recording.graph.nodes)))
        return last

    def _mask_of(self, node: fx.Node, tensor: torch.Tensor) -> tuple[fx.Node | None, bool]:
        """The mask that a value tells about, and whether it is the number of its true elements."""
        if node.target in _ABOVE_ZERO_TARGETS and isinstance(node.args[0], fx.Node):
            source = node.args[0]
            if (node.target, node.args[1]) in _ABOVE_ZERO and source.target in _COUNTS:
                return self._flags(source.args[0]), False
        if node.target in _ANY:
            return self._flags(node.args[0]), False
        if node.target in _COUNTS:
            return self._flags(node.args[0]), True
        return (node, False) if tensor.dtype == torch.bool and tensor.numel() == 1 else (None, False)

    def _flags(self, node: Any) -> fx.Node | None:
        tensor = self._recording.tensor(node) if isinstance(node, fx.Node) else None
        return node if tensor is not None and tensor.dtype == torch.bool else None

    def _close(self, taken: _Taken) -> None:
        same = SameValues(self._recording)
        for calls in taken.selections.values():
            for before in calls or [self._last_node()]:
                self._require_masked_selection(before, taken, same)
        fresh: set[int] = set()
        node = taken.before.next
        while node.op != "root":
            for target in mutated_arguments(node):
                tensor = self._recording.tensor(target)
                is_fresh = tensor is not None and _storage(tensor) in fresh
                if not is_fresh and not self._is_masked(node, target, taken.mask, same):
                    line = node.meta.get(WHERE, taken.where)
                    self._refuse(_message(taken.where, f"{line}: a write without that mask"))
            tensor = self._recording.tensor(node)
            if tensor is not None and node.op == "call_function" and not _is_seen(self._recording, node, taken.before):
                fresh.add(_storage(tensor))
            node = node.next

    def _require_masked_selection(self, before: fx.Node, taken: _Taken, same: SameValues) -> None:
        """Require that `x = torch.where(mask, new, x)` keeps x if the mask of the branch has no true element."""
        node = before.next
        while node.op != "root" and node.target is not _aten.where.self:
            node = node.next
        mask, _, kept = node.args if node.op != "root" else (None, None, None)
        result, old = (self._recording.tensor(item) if isinstance(item, fx.Node) else None for item in (node, kept))
        is_kept = result is not None and old is not None and (result.shape, result.dtype) == (old.shape, old.dtype)
        if not is_kept or not isinstance(mask, fx.Node) or not same.implies(mask, taken.mask):
            line = node.meta.get(WHERE, taken.where)
            self._refuse(_message(taken.where, f"{line}: a choice without that mask"))

    def _is_masked(self, node: fx.Node, target: fx.Node, mask: fx.Node, same: SameValues) -> bool:
        if MASKED_BY in node.meta:
            return same.implies(node.meta[MASKED_BY], mask)
        if node.target in INDEXING:
            indices: Any = node.args[1]
            return any(isinstance(item, fx.Node) and same.implies(item, mask) for item in indices)
        if node.target in _FILLS:
            return isinstance(node.args[1], fx.Node) and same.implies(node.args[1], mask)
        return False


_ABOVE_ZERO_TARGETS = {target for target, _ in _ABOVE_ZERO}


def _is_check(test: ast.If | ast.Assert, frame: types.FrameType) -> bool:
    """Whether a statement only raises or prints, depending on its test."""
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(test.test)):
        return False
    raises = isinstance(test, ast.Assert) or any(isinstance(node, ast.Raise) for node in ast.walk(test))
    if raises and _may_be_caught(frame):
        return False
    if isinstance(test, ast.Assert):
        return True
    names = {**vars(builtins), **frame.f_globals, **frame.f_locals}
    return only_reports(test.body, names) and (not test.orelse or isinstance(test.body[-1], ast.Raise))


def _may_be_caught(frame: types.FrameType) -> bool:
    """Whether code of the user could catch an error that a frame raises, and go on in another way."""
    return any(_catches(item) for outer in frames_of_stage(frame) for item in enclosing_statements(outer))


def _catches(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.With):
        return any("suppress" in ast.unparse(item.context_expr) for item in statement.items)
    return isinstance(statement, ast.Try | ast.TryStar) and bool(statement.handlers)


def _is_part_of_report(frame: types.FrameType) -> bool:
    """Whether a frame makes a text for an error, or in a branch that is a check."""
    around = enclosing_statements(frame)
    if not around or enclosing_test(frame) is not None:
        return False
    is_error = isinstance(around[-1], ast.Raise | ast.Assert)
    return is_error or any(isinstance(item, ast.If) and _is_check(item, frame) for item in around)


def _storage(tensor: torch.Tensor) -> int:
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage().data_ptr()


def _is_seen(recording: Recording, node: fx.Node, until: fx.Node) -> bool:
    """Whether the memory of a node was there before a branch."""
    own = recording.tensor(node)
    assert own is not None
    address = _storage(own)
    for other in recording.graph.nodes:
        tensor = recording.tensor(other)
        if tensor is not None and other is not node and _storage(tensor) == address:
            return _is_before(other, until) or other.op == "get_attr"
        if other is node:
            return False
    return False


def _is_before(node: fx.Node, until: fx.Node) -> bool:
    return node is until or node < until


def _is_running(taken: _Taken) -> bool:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame is not taken.frame:
        frame = frame.f_back
    span = running_span(frame) if frame is not None else None
    return span is not None and taken.body.contains(span)


def _sign(test: ast.expr, asked: Span, is_count: bool) -> bool | None:
    """Whether a test is true if the value that is asked for is, False if it is false then; None if neither is sure."""
    if Span.of(test) == asked and not (is_count and isinstance(test, ast.Compare)):
        return True
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        sign = _sign(test.operand, asked, is_count)
        return None if sign is None else not sign
    if isinstance(test, ast.BoolOp):
        part = next((item for item in test.values if Span.of(item).contains(asked)), None)
        sign = None if part is None else _sign(part, asked, is_count)
        return sign if sign is isinstance(test.op, ast.And) else None
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "bool"
        and len(test.args) == 1
    ):
        return _sign(test.args[0], asked, is_count)
    if (
        isinstance(test, ast.Compare)
        and is_count
        and len(test.ops) == 1
        and isinstance(test.comparators[0], ast.Constant)
    ):
        pair = (type(test.ops[0]), test.comparators[0].value)
        is_asked = Span.of(test.left) == asked or Span.of(test) == asked
        return (True if pair in _POSITIVE else False if pair in _NEGATIVE else None) if is_asked else None
    return None


def _body(test: ast.If, sign: bool, frame: types.FrameType) -> list[ast.stmt]:
    """The statements that run only if the mask has a true element; empty if they cannot be told."""
    if sign:
        return [] if test.orelse else test.body
    function = enclosing_function(frame.f_code)
    returns = len(test.body) == 1 and isinstance(test.body[0], ast.Return) and _is_none(test.body[0].value)
    if function is None or not returns or test.orelse:
        return []
    position = next((index for index, item in enumerate(function.body) if _is_same(item, test)), None)
    return [] if position is None else function.body[position + 1 :]


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _is_same(one: ast.stmt, two: ast.stmt) -> bool:
    return (one.lineno, one.col_offset) == (two.lineno, two.col_offset)


def _message(where: str, other: str) -> str:
    return (
        f"{where}: a branch depends on an input. The file can only follow it if its body writes through the mask of "
        f"the branch and does nothing else, but: {other}. Write it without the branch, as buffer[mask] = value or "
        "torch.where(mask, new, old)."
    )
