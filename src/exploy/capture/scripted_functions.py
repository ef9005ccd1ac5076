"""Runs functions that `torch.jit.script` compiled as the Python code that they were compiled from.

The recording sees the operators of compiled code, but not its masks and branches, and not its lines.
"""

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.jit._state import _try_get_jit_cached_function

_NUMBERS = ("float", "int", "bool")


@contextlib.contextmanager
def scripted_functions_followed() -> Iterator[None]:
    """Run the source of scripted functions within the block; those without source run as they are."""
    kind: Any = torch.jit.ScriptFunction
    compiled = kind.__call__

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        source = _source(function)
        given = None if source is None else _converted(function, args, kwargs)
        if source is None or given is None:
            return compiled(function, *args, **kwargs)
        return source(*given[0], **given[1])

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = compiled


def _source(function: Any) -> types.FunctionType | None:
    """The Python function that was compiled; None if it is not known, was traced, or asks whether it is compiled."""
    source = getattr(function, "_torchdynamo_inline", None)
    if not isinstance(source, types.FunctionType) or "is_scripting" in source.__code__.co_names:
        return None
    scripted = _try_get_jit_cached_function(source)
    is_scripted = scripted is not None and scripted.qualified_name == function.qualified_name
    return source if is_scripted else None


def _converted(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments as compiled code converts them; None if only compiled code can: it reads tensors as numbers."""
    types_of = {item.name: str(item.type) for item in function.schema.arguments}
    named = [*zip(types_of, args, strict=False), *kwargs.items()]
    if any(types_of.get(name) in _NUMBERS and isinstance(value, torch.Tensor) for name, value in named):
        return None
    positional = [_as(types_of[name], value) for name, value in zip(types_of, args, strict=False)]
    return [*positional, *args[len(positional) :]], {
        name: _as(types_of.get(name, ""), value) for name, value in kwargs.items()
    }


def _as(kind: str, value: Any) -> Any:
    return float(value) if kind == "float" and isinstance(value, int) else value
