"""Attributes of modules that torch.jit compiled; these are not in the `__dict__` of the module."""

import os
import re
from typing import Any

import torch

from exploy.live.location import is_internal

_SOURCE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_MOST_NODES = 1_000


def script_attributes(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """Parameters, buffers, submodules and plain attributes of a compiled module, by name.

    Lists and dictionaries are copies of those of the module. Returns nothing for a module whose compilation is not
    complete.
    """
    compiled = _compiled(module)
    if compiled is None:
        return {}
    names = compiled._concrete_type.get_attributes()
    modules = dict(compiled._modules.items())
    return {**{name: compiled._c.getattr(name) for name in names}, **modules}


def set_script_attribute(module: torch.jit.ScriptModule, name: str, value: object) -> None:
    """Set an attribute of a compiled module.

    Raises:
        KeyError: If the module has no such attribute.
        RuntimeError: If the value does not have the type of the attribute.
    """
    compiled = _compiled(module)
    if compiled is None or name not in compiled._concrete_type.get_attributes():
        raise KeyError(name)
    compiled._c.setattr(name, value)


def restore_script_attributes(module: torch.jit.ScriptModule, saved: dict[str, Any]) -> None:
    """Set the attributes that are not those that `script_attributes()` returned before."""
    now = script_attributes(module)
    for name, value in saved.items():
        if not _is_same(now.get(name), value):
            set_script_attribute(module, name, value)


def script_reading_line(module: torch.jit.ScriptModule, attribute: str) -> str:
    """`file:line (in method)` of the first code of a compiled module that uses an attribute; empty if not found."""
    compiled = _compiled(module)
    names = compiled._c._method_names() if compiled is not None else []
    for method in sorted(names, key=lambda name: name != "forward"):
        graph = compiled._c._get_method(method).graph
        reads = [node for node in graph.findAllNodes("prim::GetAttr") if node.s("name") == attribute]
        sources = [source for node in reads if (source := _source(node)) is not None]
        if sources:
            return f"{sources[0]} (in {method})"
    return ""


def _compiled(module: torch.jit.ScriptModule) -> Any:
    """The module that holds the attributes; a traced module has it inside."""
    attributes = object.__getattribute__(module, "__dict__")
    inner = attributes.get("_actual_script_module", module)
    return inner if {"_c", "_concrete_type"} <= object.__getattribute__(inner, "__dict__").keys() else None


def _source(node: Any) -> str | None:
    """`file:line` of the user code behind a node, or behind what uses its result; attribute reads have no place."""
    queue = [node]
    for item in queue:
        for found in _SOURCE.finditer(item.sourceRange()):
            if os.path.isabs(found["file"]) and not is_internal(found["file"]):
                return f"{found['file']}:{found['line']}"
        if len(queue) < _MOST_NODES:
            queue += [use.user for output in item.outputs() for use in output.uses()]
    return None


def _is_same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    if type(one) is not type(two) or isinstance(one, torch.Tensor | torch.nn.Module):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(_is_same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(map(_is_same, one.values(), two.values()))
    return bool(one == two)
