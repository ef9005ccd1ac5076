"""The plain Python values that live objects hold: numbers, flags, texts, and None."""

from collections.abc import Mapping

from exploy.exporter.capture.object_graph import state_of, walk
from exploy.exporter.capture.paths import BOOKKEEPING

PLAIN = (bool, int, float, str, type(None))


def plain_values(roots: dict[str, object]) -> dict[str, object]:
    """Every plain value that can be reached, by its path. No property is called."""
    values: dict[str, object] = {}
    for found in walk(roots, skip=BOOKKEEPING):
        for path, value in _items(found.path, found.value):
            if isinstance(value, PLAIN):
                values.setdefault(path, value)
    return values


def _items(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"{path}[{key!r}]", item) for key, item in list(value.items()) if isinstance(key, str | int)]
    if isinstance(value, list):
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, (*BOOKKEEPING, type)):
        return []
    return [(f"{path}.{name}", item) for name, item in state_of(value).items()]
