"""Converts between the element order of the file and that of the robot, by name."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from exploy.contract import Port
from exploy.errors import RuntimeInputError


def validated_order(port: Port, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names as a tuple, after checking that all names of the port are among them, each exactly once.

    Raises:
        RuntimeInputError: If the port has no names, or names are missing or duplicated; all are listed.
    """
    if port.names is None:
        raise RuntimeInputError(
            f"{port.name!r} has no element names in this file. "
            "Export it with metadata={'names': […]} on that component."
        )
    given = tuple(names) if isinstance(names, Iterable) else (names,)
    if isinstance(names, str) or not all(isinstance(name, str) for name in given):
        raise RuntimeInputError(f"The names for {port.name!r} must be a list of strings, got {names!r}.")
    missing = [name for name in port.names if name not in given]
    twice = sorted({name for name in given if given.count(name) > 1})
    if missing or twice:
        problems = {
            "missing": missing,
            "given twice": twice,
            "not in the file": [name for name in given if name not in port.names],
        }
        wrong = [f"{what}: {', '.join(listed)}" for what, listed in problems.items() if listed]
        raise RuntimeInputError(
            f"{port.name!r} has the elements {', '.join(port.names)}; give each exactly once. {'; '.join(wrong)}."
        )
    return given


def order_of(port: Port, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the elements of a port in the order of `names`, or None if `names` does not contain all of them."""
    if port.names is None or not set(port.names) <= set(names):
        return None
    return tuple(name for name in names if name in port.names)


def reordered(port: Port, order: tuple[str, ...]) -> Port:
    """Return the port with names, limits, gains and stop values in another order."""
    index = _places(port.names, order)

    def moved(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(values[place] for place in index)

    limits: Any = port.limits
    if limits is not None and any(isinstance(item, tuple) for item in limits):
        limits = moved(limits)
    gains = None if port.gains is None else {name: moved(values) for name, values in port.gains.items()}
    on_stop = moved(port.on_stop) if isinstance(port.on_stop, tuple) else port.on_stop
    return dataclasses.replace(port, names=order, limits=limits, gains=gains, on_stop=on_stop)


def flat_index(shape: tuple[int, ...], source: Port, target: Port) -> np.ndarray:
    """Return the index that converts a flattened array from the order of `source` to the order of `target`."""
    positions = np.arange(int(np.prod(shape)), dtype=np.intp).reshape(shape)
    if source.names == target.names:
        return positions.reshape(-1)
    return positions[..., _places(source.names, target.names or ())].reshape(-1)


def _places(names: Sequence[str] | None, order: Sequence[str]) -> list[int]:
    places = {name: place for place, name in enumerate(names or ())}
    return [places[name] for name in order]
