"""The plain Python values of live objects: numbers, flags, strings, None, and small numpy arrays."""

import enum
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from exploy.live.attribute_paths import BOOKKEEPING
from exploy.live.module_globals import ModuleGlobals
from exploy.live.object_graph import (
    cached_by_type,
    class_data,
    data_places,
    has_slots,
    instance_dict,
    is_a,
    key_text,
    state_of,
    walk,
)
from exploy.live.scripted_modules import script_attributes

_PLAIN = (bool, int, float, str, type(None), enum.Enum, np.generic)
_MOST_ELEMENTS = 64
_MISSING = object()


class PythonValues:
    """All plain values that can be reached from some objects, by path, and their changes. Properties are not evaluated.

    Args:
        roots: Objects to start from, by the first name of their paths.
    """

    def __init__(self, roots: dict[str, object]):
        self.values: dict[str, object] = {}
        self._arrays: list[tuple[str, np.ndarray]] = []
        self._holders: list[tuple[str, Any, dict[Any, Any]]] = []
        for found in walk(roots, skip=BOOKKEEPING):
            items = _items(found.value)
            if items:
                self._holders.append((found.attr_path, found.value, dict(items)))
                self.values.update(_plain(found.attr_path, found.value, items))
            elif _is_small_array(found.value):
                self._arrays.append((found.attr_path, found.value))
                self.values[found.attr_path] = found.value.copy()

    def __len__(self) -> int:
        """The number of inspected objects."""
        return len(self._holders)

    def changed(self) -> dict[str, object]:
        """The plain values that changed since the start, or that replaced another object.

        If an object was replaced, the paths below it are followed into the new object.
        """
        changed: dict[str, object] = {
            attr_path: array.copy()
            for attr_path, array in self._arrays
            if not same_value(self.values[attr_path], array)
        }
        is_same = operator.is_
        for attr_path, holder, before in self._holders:
            kind = type(holder)
            is_plain = (kind is list or kind is tuple) and len(holder) == len(before)
            if is_plain and all(map(is_same, holder, before.values())):
                continue
            now = _items(holder)
            if len(now) == len(before) and all(map(is_same, now.values(), before.values())):
                continue
            for key, value in now.items():
                if value is not before.get(key, value):
                    changed.update(self._change(_path_of(attr_path, holder, key), before[key], value))
        return changed

    def _change(self, attr_path: str, before: object, now: object) -> dict[str, object]:
        if is_a(now, _PLAIN) or _is_small_array(now):
            return {} if same_value(before, now) else {attr_path: now}
        return {} if is_a(before, _PLAIN) else self._changed_below(attr_path, now)

    def _changed_below(self, attr_path: str, replacement: object) -> dict[str, object]:
        values: dict[str, object] = {}
        for found in walk({attr_path: replacement}, skip=BOOKKEEPING):
            values.update(_plain(found.attr_path, found.value, _items(found.value)))
        return {
            where: value
            for where, value in values.items()
            if where in self.values and not same_value(self.values[where], value)
        }


def _plain(attr_path: str, holder: object, items: dict[Any, Any]) -> dict[str, object]:
    return {_path_of(attr_path, holder, key): value for key, value in items.items() if is_a(value, _PLAIN)}


def _items(holder: Any) -> dict[Any, Any]:
    """The contents of an object by name, index or key. May be the object's own dictionary."""
    return _way_to_look(type(holder))(holder)


@cached_by_type
def _way_to_look(kind: type) -> Callable[[Any], dict[Any, Any]]:
    if issubclass(kind, dict):
        return lambda holder: dict(list(dict.items(holder)))
    if issubclass(kind, list):
        return lambda holder: dict(enumerate(list.__iter__(holder)))
    if issubclass(kind, tuple):
        return lambda holder: dict(enumerate(tuple.__iter__(holder)))
    if issubclass(kind, ModuleGlobals):
        return lambda holder: holder.variables
    if issubclass(kind, torch.jit.ScriptModule):
        return lambda holder: instance_dict(holder) | script_attributes(holder)
    if issubclass(kind, type):
        return class_data
    if issubclass(kind, BOOKKEEPING):
        return lambda holder: {}
    return state_of if has_slots(kind) or data_places(kind) else instance_dict


def _path_of(attr_path: str, holder: object, key: Any) -> str:
    return f"{attr_path}[{key_text(key)}]" if is_a(holder, dict | list | tuple) else f"{attr_path}.{key}"


def _is_small_array(value: object) -> bool:
    return is_a(value, np.ndarray) and value.size <= _MOST_ELEMENTS and value.dtype.kind in "biuf"  # type: ignore[attr-defined]


def same_value(one: object, two: object) -> bool:
    """Whether two plain values have the same type and value; equal NaNs are equal."""
    if is_a(one, np.ndarray) and is_a(two, np.ndarray):
        return np.array_equal(one, two, equal_nan=one.dtype.kind in "fc")  # type: ignore[arg-type, attr-defined]
    return type(one) is type(two) and bool(one == two or (one != one and two != two))
