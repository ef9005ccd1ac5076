"""Events that draw at random what a file has as a constant, such as centres of mass and gains of motors."""

import warnings
from collections.abc import Collection, MutableMapping
from typing import Any

from exploy.errors import RandomizedConstantWarning

GAINS = "gains or limits of motors, with which the file computes efforts"


def warn_of_random_events(manager: Any, functions: Collection[str], what: str) -> None:
    """Warn of the events of an environment that have drawn constants of the file.

    Args:
        manager: The event manager.
        functions: The names of the functions of the library that draw them.
        what: What they draw.
    """
    found = [
        f"{name} ({mode})"
        for mode, names in manager.active_terms.items()
        for name in names
        if _name_of(manager.get_term_cfg(name)) in functions
    ]
    if found:
        warnings.warn(
            f"The event {', '.join(found)} has drawn at random {what}: the file has the drawn values as constants. "
            "Remove the event from the configuration before the environment is made for the export.",
            RandomizedConstantWarning,
            stacklevel=4,
        )


def leave_out_random_events(events: MutableMapping[str, Any], functions: Collection[str], what: str) -> None:
    """Set the events of a configuration to None that would draw constants of the file, and warn of that.

    Args:
        events: The events by their names.
        functions: The names of the functions of the library that draw them.
        what: What they draw.
    """
    found = [name for name, event in events.items() if event is not None and _name_of(event) in functions]
    for name in found:
        events[name] = None
    if found:
        warnings.warn(
            f"The event {', '.join(found)} is left out, because it draws at random {what}.",
            RandomizedConstantWarning,
            stacklevel=4,
        )


def _name_of(event: Any) -> str:
    """The name of an event's function, which may be a class, an instance, or a text that is resolved later."""
    function = getattr(event, "func", "")
    name = function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
    return str(name).replace(":", ".").rpartition(".")[2]
