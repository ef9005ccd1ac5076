"""Changes of a task's configuration, given as dotted names with values."""

from collections.abc import Mapping
from typing import Any

from exploy.errors import FactoryError


def apply_settings(configuration: Any, settings: Mapping[str, Any]) -> None:
    """Set attributes, or items of dictionaries, of a configuration: `commands.motion.motion_file`.

    Lists become tuples where the configuration has tuples.

    Raises:
        FactoryError: If there is no such setting; the message lists those that there are.
    """
    for path, value in settings.items():
        *owners, name = path.split(".")
        owner = configuration
        for count, part in enumerate(owners):
            owner = _get(owner, part, ".".join(owners[:count]))
        before = _get(owner, name, ".".join(owners))
        value = tuple(value) if isinstance(before, tuple) and isinstance(value, list) else value
        if isinstance(owner, dict):
            owner[name] = value
        else:
            setattr(owner, name, value)


def _get(owner: Any, name: str, path: str) -> Any:
    where = f" in {path}" if path else ""
    if not isinstance(owner, dict) and not hasattr(owner, "__dict__"):
        raise FactoryError(f"The configuration of the task has no {name}{where}, which is the value {owner!r}.")
    known = list(owner) if isinstance(owner, dict) else [key for key in vars(owner) if not key.startswith("_")]
    if name not in known:
        raise FactoryError(f"The configuration of the task has no {name}{where}. It has: {', '.join(map(str, known))}.")
    return owner[name] if isinstance(owner, dict) else getattr(owner, name)
