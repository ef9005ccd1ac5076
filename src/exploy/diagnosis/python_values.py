"""The plain Python values that live objects hold: numbers, flags, texts, and None."""

from collections.abc import Mapping
from typing import Any

from exploy.exporter.capture.object_graph import state_of, walk
from exploy.exporter.capture.paths import BOOKKEEPING

_PLAIN = (bool, int, float, str, type(None))
_MISSING = object()


class PythonValues:
    """All plain values that can be reached from some objects, by path, and how they change. No property is called.

    Args:
        roots: Objects to start from, by the name that their paths start with.
    """

    def __init__(self, roots: dict[str, object]):
        self.values: dict[str, object] = {}
        self._holders: list[tuple[str, Any, dict[Any, Any]]] = []
        for found in walk(roots, skip=BOOKKEEPING):
            items = _items(found.value)
            if items:
                self._holders.append((found.path, found.value, items))
                self.values.update(_plain(found.path, found.value, items))

    def changed(self) -> dict[str, object]:
        """The plain values that are others now than at the start, or stand where something else stood.

        Where an object was replaced by another, the paths below it are followed into the new one.
        """
        changed: dict[str, object] = {}
        for path, holder, before in self._holders:
            now = _items(holder)
            for key in before if len(before) == len(now) else before.keys() & now.keys():
                value = now.get(key, _MISSING)
                if value is before[key] or value is _MISSING:
                    continue
                where = _path_of(path, holder, key)
                if isinstance(value, _PLAIN):
                    if not _same(before[key], value):
                        changed[where] = value
                elif not isinstance(before[key], _PLAIN):
                    changed.update(self._changed_below(where, value))
        return changed

    def _changed_below(self, path: str, replacement: object) -> dict[str, object]:
        values: dict[str, object] = {}
        for found in walk({path: replacement}, skip=BOOKKEEPING):
            values.update(_plain(found.path, found.value, _items(found.value)))
        return {
            where: value
            for where, value in values.items()
            if where in self.values and not _same(self.values[where], value)
        }


def _plain(path: str, holder: object, items: dict[Any, Any]) -> dict[str, object]:
    return {_path_of(path, holder, key): value for key, value in items.items() if isinstance(value, _PLAIN)}


def _items(holder: Any) -> dict[Any, Any]:
    if isinstance(holder, Mapping):
        return {key: value for key, value in list(holder.items()) if isinstance(key, str | int)}
    if isinstance(holder, list):
        return dict(enumerate(holder))
    if isinstance(holder, (*BOOKKEEPING, type)):
        return {}
    return state_of(holder)


def _path_of(path: str, holder: object, key: Any) -> str:
    return f"{path}[{key!r}]" if isinstance(holder, Mapping | list) else f"{path}.{key}"


def _same(one: object, two: object) -> bool:
    return type(one) is type(two) and (one == two or (one != one and two != two))
