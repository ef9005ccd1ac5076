"""Events that draw the parameters of motor models at random, which a file with motors would have as constants."""

import warnings
from collections.abc import Collection, MutableMapping
from typing import Any

from exploy.errors import RandomizedConstantWarning


def warn_of_random_gains(manager: Any, functions: Collection[str]) -> None:
    """Warn of the events of an environment that have changed gains or limits of motors.

    Args:
        manager: The event manager.
        functions: The names of the functions of the library that change these.
    """
    found = [
        f"{name} ({mode})"
        for mode, names in manager.active_terms.items()
        for name in names
        if _name_of(manager.get_term_cfg(name)) in functions
    ]
    if found:
        warnings.warn(
            f"Gains or limits of motors were drawn at random by the event {', '.join(found)}, and the file computes "
            "efforts with these as constants. Remove the event from the configuration before the environment is made "
            "for the export.",
            RandomizedConstantWarning,
            stacklevel=4,
        )


def leave_out_random_gains(events: MutableMapping[str, Any], functions: Collection[str]) -> None:
    """Set the events of a configuration to None that change gains or limits of motors, and warn of that."""
    found = [name for name, event in events.items() if event is not None and _name_of(event) in functions]
    for name in found:
        events[name] = None
    if found:
        warnings.warn(
            f"The event {', '.join(found)} is left out, because it draws gains or limits of motors at random, and the "
            "file computes efforts with these.",
            RandomizedConstantWarning,
            stacklevel=4,
        )


def _name_of(event: Any) -> str:
    function = getattr(event, "func", "")
    return str(getattr(function, "__name__", type(function).__name__))
