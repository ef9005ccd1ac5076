"""Tells from the source whether the body of a branch can do nothing but write to tensors.

If the body of `if mask.any():` only writes through that mask, the file may always run it. This module rejects all else
that Python could do there. Whether the writes are masked is seen in the recording, not here.
"""

import ast
import builtins
import inspect
import logging
import sys
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from exploy.capture.masked_rows import MaskedRows
from exploy.live.statements import enclosing_function

_HARMLESS = frozenset(
    {len, range, float, int, bool, abs, min, max, isinstance, zip, enumerate, list, tuple, slice, getattr, hasattr}
)
_REPORTS = frozenset({print, warnings.warn, sys.exit})
_MAX_DEPTH = 6
_UNKNOWN = object()
_A_TENSOR = torch.empty(0)
_SAME_MEMORY = ("data", "T", "mT", "H", "real")


def only_reports(statements: Sequence[ast.stmt], names: Mapping[str, Any]) -> bool:
    """Whether statements only raise an error, print, warn or log."""
    return all(_reports(item, names) for item in statements)


def _reports(statement: ast.stmt, names: Mapping[str, Any]) -> bool:
    if isinstance(statement, ast.Raise | ast.Pass):
        return True
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = _resolved(statement.value.func, names)
    owner = getattr(function, "__self__", None)
    is_logging = isinstance(owner, logging.Logger) or getattr(function, "__module__", "") == "logging"
    return is_logging or any(function is item for item in _REPORTS)


def what_else(statements: Sequence[ast.stmt], frame: types.FrameType) -> str | None:
    """What statements of a running function do beside writing to tensors; None if there is nothing.

    Args:
        statements: The statements, not yet executed.
        frame: The frame that will execute them.
    """
    names = _names(frame)
    function = enclosing_function(frame.f_code)
    body = _Body(names, frame.f_code.co_filename)
    found = body.look_at(statements, is_function=False)
    if found is None and function is not None:
        found = _leaking(statements, function, names)
    elif found is None:
        found = "its source could not be read"
    return found


def selections(statements: Sequence[ast.stmt], frame: types.FrameType) -> list[ast.Assign]:
    """The statements like `x = torch.where(mask, new, x)`: without the branch, they keep the variable as it is."""
    return _selections(statements, _names(frame))


def _names(frame: types.FrameType) -> dict[str, Any]:
    return {**vars(builtins), **frame.f_globals, **frame.f_locals}


def _selections(statements: Sequence[ast.stmt], names: Mapping[str, Any]) -> list[ast.Assign]:
    nodes = [node for item in statements for node in ast.walk(item)]
    return [node for node in nodes if isinstance(node, ast.Assign) and _is_selection(node, names)]


def _is_selection(node: ast.Assign, names: Mapping[str, Any]) -> bool:
    target, call = node.targets[0], node.value
    if len(node.targets) > 1 or not isinstance(target, ast.Name) or not isinstance(call, ast.Call):
        return False
    is_where = _resolved(call.func, names) is torch.where and len(call.args) == 3 and not call.keywords
    is_kept = is_where and isinstance(call.args[2], ast.Name) and call.args[2].id == target.id
    return is_kept and isinstance(names.get(target.id), torch.Tensor)


def _leaking(statements: Sequence[ast.stmt], function: ast.FunctionDef, known: Mapping[str, Any]) -> str | None:
    """A variable that the statements set and that is read elsewhere in the function."""
    inside = {id(node) for item in statements for node in ast.walk(item)}
    selected = {id(item.targets[0]) for item in _selections(statements, known)}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and id(node) not in selected]
    stored = {node.id for node in names if id(node) in inside and not isinstance(node.ctx, ast.Load)}
    read = {node.id for node in names if id(node) not in inside and isinstance(node.ctx, ast.Load)}
    both = sorted(stored & read)
    return f"it sets the variable `{both[0]}`, which is read elsewhere" if both else None


class _Body:
    """Looks at statements with the variables that are known, and at the functions that they call."""

    def __init__(self, names: Mapping[str, Any], filename: str, depth: int = 0):
        self._names = dict(names)
        self._filename = filename
        self._depth = depth

    def look_at(self, statements: Sequence[ast.stmt], is_function: bool) -> str | None:
        for statement in statements:
            found = self._statement(statement, is_function)
            if found is not None:
                return found
        return None

    def _statement(self, item: ast.stmt, is_function: bool) -> str | None:
        if isinstance(item, ast.Pass):
            return None
        if isinstance(item, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            return self._first([self._target(target, item) for target in targets]) or self._expressions(item)
        if isinstance(item, ast.Expr):
            return self._expressions(item)
        if isinstance(item, ast.If):
            inner = self._expressions(item.test) or self.look_at(item.body, is_function)
            return inner or self.look_at(item.orelse, is_function)
        if isinstance(item, ast.For):
            inner = self._target(item.target, item) or self._expressions(item.iter)
            return inner or self.look_at([*item.body, *item.orelse], is_function)
        if isinstance(item, ast.Assert):
            return self._expressions(item.test)
        if isinstance(item, ast.Return) and (is_function or item.value is None):
            return None if item.value is None else self._expressions(item.value)
        return self._said(item, f"`{type(item).__name__.lower()}` is no write to a tensor")

    def _target(self, target: ast.expr, item: ast.stmt) -> str | None:
        if isinstance(target, ast.Tuple | ast.List):
            return self._first([self._target(part, item) for part in target.elts])
        if isinstance(target, ast.Name):
            self._names[target.id] = _UNKNOWN
            if isinstance(item, ast.Assign) and len(item.targets) == 1:
                self._names[target.id] = _resolved(item.value, self._names)
            return None
        if isinstance(target, ast.Subscript):
            owner = _resolved(target.value, self._names)
            if isinstance(owner, torch.Tensor):
                return None
        return self._said(item, f"`{ast.unparse(target)}` is no part of a tensor")

    def _expressions(self, node: ast.AST) -> str | None:
        for part in ast.walk(node):
            if isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
                return self._said(part, "it sets variables")
            if isinstance(part, ast.Call):
                found = self._call(part)
                if found is not None:
                    return found
        return None

    def _call(self, call: ast.Call) -> str | None:
        function = _resolved(call.func, self._names)
        if function is _UNKNOWN:
            owner = _resolved(call.func.value, self._names) if isinstance(call.func, ast.Attribute) else None
            if owner is _UNKNOWN and isinstance(call.func, ast.Attribute) and hasattr(torch.Tensor, call.func.attr):
                return None  # a method of a result
            return self._said(call, f"`{ast.unparse(call.func)}` is not known")
        if self._is_of_torch(call.func, function) or any(function is item for item in _HARMLESS):
            return None
        if isinstance(function, torch.nn.Module):
            function = function.forward
        owner = getattr(function, "__self__", None)
        plain = getattr(function, "__func__", function)
        if isinstance(plain, types.FunctionType) and self._depth < _MAX_DEPTH:
            return self._called(plain, owner, call)
        return self._said(call, f"`{ast.unparse(call.func)}` is no function of torch")

    def _called(self, function: types.FunctionType, owner: Any, call: ast.Call) -> str | None:
        definition = enclosing_function(function.__code__)
        if definition is None:
            return self._said(call, f"the source of `{ast.unparse(call.func)}` could not be read")
        given = [*([owner] if owner is not None else []), *(_resolved(item, self._names) for item in call.args)]
        parameters = [item.arg for item in (*definition.args.posonlyargs, *definition.args.args)]
        closure = inspect.getclosurevars(function)
        names = {**vars(builtins), **function.__globals__, **closure.nonlocals}
        names |= dict.fromkeys(function.__code__.co_varnames, _UNKNOWN)
        names |= dict(zip(parameters, given, strict=False))
        names |= {item.arg: _resolved(item.value, self._names) for item in call.keywords if item.arg}
        body = _Body(names, function.__code__.co_filename, self._depth + 1)
        if any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(definition)):
            return self._said(call, f"`{ast.unparse(call.func)}` sets variables of other functions")
        return body.look_at(definition.body, is_function=True)

    def _is_of_torch(self, node: ast.expr, function: Any) -> bool:
        owner = _resolved(node.value, self._names) if isinstance(node, ast.Attribute) else None
        is_in_torch = isinstance(owner, types.ModuleType) and owner.__name__.partition(".")[0] == "torch"
        return is_in_torch or _is_of_torch(function)

    def _said(self, node: ast.AST, reason: str) -> str:
        return f"{self._filename}:{getattr(node, 'lineno', 0)}: {reason}"

    def _first(self, found: list[str | None]) -> str | None:
        return next((item for item in found if item is not None), None)


def _is_of_torch(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.Tensor) or isinstance(function, torch.jit.ScriptFunction):
        return True
    kind = type(function) if isinstance(function, torch.nn.Module) else function
    module = getattr(kind, "__module__", None) or ""
    return (
        module == "torch" or module.startswith("torch.") or getattr(torch, getattr(kind, "__name__", ""), None) is kind
    )


def _resolved(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The object that an expression stands for; `_A_TENSOR` for a result of torch, `_UNKNOWN` if not known.

    Nothing is called: properties and computed attributes are not known.
    """
    if isinstance(node, ast.Name):
        found = names.get(node.id, _UNKNOWN)
        return _A_TENSOR if type(found) is MaskedRows else found
    if isinstance(node, ast.Attribute):
        owner = _resolved(node.value, names)
        return _UNKNOWN if owner is _UNKNOWN else _attribute(owner, node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_resolved(node.value, names), node.slice)
    if isinstance(node, ast.Call):
        return _A_TENSOR if _is_of_torch(_resolved(node.func, names)) else _UNKNOWN
    operands = {ast.BinOp: ("left", "right"), ast.UnaryOp: ("operand",), ast.Compare: ("left",)}.get(type(node), ())
    is_tensor = any(isinstance(_resolved(getattr(node, name), names), torch.Tensor) for name in operands)
    return _A_TENSOR if is_tensor else _UNKNOWN


def _item(owner: Any, key: ast.expr) -> Any:
    if isinstance(owner, torch.Tensor):
        return _A_TENSOR
    if type(owner) in (dict, list, tuple) and isinstance(key, ast.Constant):
        try:
            return owner[key.value]
        except (LookupError, TypeError):
            return _UNKNOWN
    return _UNKNOWN


def _attribute(owner: Any, name: str) -> Any:
    found = inspect.getattr_static(owner, name, _UNKNOWN)
    if isinstance(owner, torch.Tensor) and not callable(found):
        return _A_TENSOR if name in _SAME_MEMORY else _UNKNOWN
    if found is _UNKNOWN and isinstance(owner, torch.nn.Module):
        return {**owner._modules, **owner._buffers, **owner._parameters}.get(name, _UNKNOWN)
    return _UNKNOWN if found is _UNKNOWN or isinstance(found, property) else getattr(owner, name)
