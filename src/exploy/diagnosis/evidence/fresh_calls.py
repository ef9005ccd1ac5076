"""Finds the call by which a callback gets a new tensor each time."""

import inspect
import types
from collections.abc import Iterator
from typing import Any

import torch

from exploy.capture.perturbation import disturbed
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.environment.called_values import CalledValue
from exploy.environment.components import Input
from exploy.environment.exchanged_code import calls_replaced
from exploy.errors import ComponentError
from exploy.live.object_graph import walk


def fresh_call(experiments: Experiments, item: Input) -> tuple[str, str] | None:
    """The call that the callback of an Input makes, if the callback returns its result as it is.

    Each candidate is tried: with another result of the call, the callback must return that.

    Returns:
        The path of the object, and the whole call as the code for `call=`; None if there is no such call.
    """
    for attr_path, owner, name in _candidates(experiments, item):
        arguments = _arguments(experiments, item, owner, name)
        if arguments is None:
            continue
        written = [_expression(experiments, value) for value in arguments]
        if None not in written and _decides(item, CalledValue((owner, name, *arguments))):
            parts = [attr_path, f'"{name}"', *(str(value) for value in written)]
            return attr_path, f"({', '.join(parts)})"
    return None


def _candidates(experiments: Experiments, item: Input) -> Iterator[tuple[str, Any, str]]:
    """Objects with Python methods or properties that have names which the callback uses."""
    callback = item.get_from_env_cb
    names = list(getattr(getattr(callback, "__code__", None), "co_names", ()))[::-1]
    if isinstance(callback, types.MethodType):
        names.append(callback.__name__)  # what it calls itself goes first
    objects = list(walk(experiments.roots)) if names else []
    for name in names:
        for attr_path, owner in objects:
            if isinstance(inspect.getattr_static(owner, name, None), types.FunctionType | property):
                yield attr_path, owner, name


def _arguments(experiments: Experiments, item: Input, owner: Any, name: str) -> list[Any] | None:
    """The arguments of the call that the callback makes; None if it makes no such call."""
    try:
        called = CalledValue((owner, name))
    except ComponentError:
        return None
    seen: list[list[Any]] = []

    def note(original: types.FunctionType, *args: Any, **kwargs: Any) -> Any:
        if args and args[0] is owner:
            bound = inspect.signature(original).bind(*args, **kwargs)
            seen.append(list(bound.args[1:]) if not bound.kwargs else [_Unknown()])
        return original(*args, **kwargs)

    try:
        with calls_replaced(called.function, note):
            item.get_from_env_cb()
    except Exception:
        return None
    return seen[0] if len(seen) == 1 else None


class _Unknown:
    """An argument that no position stands for."""


def _expression(experiments: Experiments, value: Any) -> str | None:
    """Code for an argument: its path, or itself if it is a number or a list of numbers; None if there is none."""
    items = value if isinstance(value, list | tuple) else [value]
    if all(item is None or type(item) in (bool, int, float, str) for item in items):
        return repr(value)
    return next((attr_path for attr_path, found in walk(experiments.roots) if found is value), None)


def _decides(item: Input, called: CalledValue) -> bool:
    try:
        held = called.fetch()
        other = disturbed(held, torch.Generator().manual_seed(0))
        held.copy_(other)
        with called.replaced():
            result = item.get_from_env_cb()
    except Exception:
        return False
    return isinstance(result, torch.Tensor) and result.shape == other.shape and torch.equal(result, other)
