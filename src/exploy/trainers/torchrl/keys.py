"""Keys of tensordicts, and the names of the ports that they become."""

from collections.abc import Iterable
from typing import Any

from exploy.errors import PolicyError

Key = tuple[str, ...]

EXTRA = "torchrl"  # of exploy, which installs what is needed
NEXT = "next"
IS_INIT: Key = ("is_init",)


def as_key(key: Any) -> Key:
    """A key as a flat tuple of texts.

    Raises:
        PolicyError: If it is neither a text nor a tuple of texts.
    """
    if isinstance(key, str):
        return (key,)
    if isinstance(key, tuple) and key:
        return tuple(part for item in key for part in as_key(item))
    raise PolicyError(f"A key of a tensordict is a text or a tuple of texts, got {key!r}.")


def as_keys(keys: Any) -> list[Key]:
    """Some keys, or one; those called `_`, which nothing is written to, are left out."""
    if keys is None:
        return []
    keys = [keys] if isinstance(keys, str) else list(keys)
    return [as_key(key) for key in keys if key != "_"]


def shown(key: Key) -> str:
    """A key as users write it."""
    return repr(key[0]) if len(key) == 1 else repr(key)


def listed(keys: Iterable[Key]) -> str:
    """Some keys in a message."""
    return ", ".join(shown(key) for key in sorted(keys)) or "nothing"


def port_name(key: Key) -> str:
    """The name of the port that a key becomes."""
    return "_".join(key)


def refuse_unusable_names(keys: Iterable[Key]) -> None:
    """Refuse keys that cannot become ports.

    Raises:
        PolicyError: If a key is no identifier, or two of them would become one port.
    """
    seen: dict[str, Key] = {}
    for key in keys:
        name = port_name(key)
        if not name.isidentifier():
            raise PolicyError(
                f"The key {shown(key)} would become a port called {name!r}, which is no identifier. Rename it, for "
                "example by a RenameTransform in the environment."
            )
        if seen.setdefault(name, key) != key:
            raise PolicyError(
                f"The keys {shown(seen[name])} and {shown(key)} would both become the port {name!r}. Rename one of "
                "them, for example by a RenameTransform in the environment."
            )
