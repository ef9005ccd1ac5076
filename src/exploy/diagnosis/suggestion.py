"""Lines of code that fix findings, ready to paste."""

import json
import re
from collections.abc import Collection

_RESERVED = ("actions", "obs")
_SAYS_NOTHING = frozenset(
    (
        "tensor",
        "torch",
        "data",
        "cached_data",
        "cache",
        "value",
        "values",
        "array",
        "storage",
        "item",
        "items",
        "wrapped",
    )
)


def component_line(kind: str, name: str, attr_path: str) -> str:
    """Code that creates a component whose callback returns the object at a path."""
    return f"{kind}(name={json.dumps(name, ensure_ascii=False)}, get_from_env_cb=lambda: {attr_path})"


def name_from_attr_path(attr_path: str, taken: Collection[str], kind: str = "Input") -> str:
    """A short name for the tensor at a path; more of the path is added in front if the name is taken.

    `env.robot._vel` becomes `vel`; `env.history[0]` becomes `history_0`; `env.imu.cached_data` becomes `imu`. Only a
    Memory may have the name of a reserved port.
    """
    words = [word for part in re.split(r"[^a-zA-Z0-9_]+", attr_path) if (word := part.strip("_"))]
    words = _telling(words)
    reserved = () if kind == "Memory" else _RESERVED
    start = len(words) - 1
    while start > 0 and words[start][0].isdigit():
        start -= 1
    starts = [position for position in range(start, -1, -1) if not words[position][0].isdigit()]
    names = ["_".join(words[position:]) for position in starts or [0]]
    names += [f"{names[0]}_{number}" for number in range(2, len(taken) + 3)]
    return next(name for name in names if name not in taken and name not in reserved)


def _telling(words: list[str]) -> list[str]:
    """Leave out words behind the last one that says what a thing is, but for numbers."""
    last = len(words) - 1
    while last > 1 and (words[last][0].isdigit() or words[last] in _SAYS_NOTHING):
        last -= 1
    if words[last] in _SAYS_NOTHING or last == 0:
        return words
    return [*words[: last + 1], *(word for word in words[last + 1 :] if word[0].isdigit())]


def removal(attr_path: str) -> str:
    """An expression that deletes the attribute or item at a path, if it exists."""
    holder, _, attribute = attr_path.rpartition(".")
    if attr_path.endswith("]"):
        holder, _, key = attr_path.rpartition("[")
        return f"{holder}.pop({key[:-1]}, None)"
    return f'vars({holder}).pop("{attribute}", None)'


def assignment(attr_path: str, value: str) -> str:
    """An expression that writes `value` (an expression) to the attribute or item at a path."""
    holder, _, attribute = attr_path.rpartition(".")
    if attr_path.endswith("]"):
        holder, _, key = attr_path.rpartition("[")
        return f"{holder}.__setitem__({key[:-1]}, {value})"
    return f'setattr({holder}, "{attribute}", {value})'
