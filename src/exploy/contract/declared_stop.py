"""What outputs declare for a stop, and how users add to it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from exploy.contract.motion import Motion, declared_motion, why_unknown
from exploy.contract.on_stop import HOLD, ZERO, OnStopValue, validated_on_stop
from exploy.contract.parts import Port, PortKind


def declared_stop(port: Port) -> OnStopValue | None:
    """Return what a port declares for a stop; None if that is not known, see `why_undecided()`."""
    if port.on_stop is not None:
        return port.on_stop
    motion = declared_motion(port)
    if motion is Motion.STANDS:
        return HOLD
    return ZERO if motion is Motion.MOVES and _may_be_zero(port) else None


def why_undecided(port: Port) -> str:
    """Return why `declared_stop()` of a port is None, for messages."""
    if declared_motion(port) is not None:
        return f"zero is outside of its limits {port.limits}"
    return why_unknown(port)


def with_on_stop(ports: Sequence[Port], given: Mapping[str, Any]) -> list[Port]:
    """Return outputs with the stop values that the user gave, which replace their own.

    Raises:
        ValueError: If a name is not that of an output, or is that of a memory, or a value does not fit its output.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"on_stop must be a dictionary of stop values by output, got {given!r}.")
    names = [port.name for port in ports if port.kind != PortKind.MEMORY]
    unknown = [str(name) for name in given if name not in names]
    if unknown:
        raise ValueError(f"on_stop has {', '.join(unknown)}, but the outputs are {', '.join(names)}.")
    return [_with(port, given[port.name]) if port.name in given else port for port in ports]


def _with(port: Port, value: Any) -> Port:
    try:
        on_stop = validated_on_stop(value, np.dtype(port.dtype), port.shape, port.limits)
    except ValueError as error:
        raise ValueError(f"The output {port.name!r}: {error}.") from None
    return dataclasses.replace(port, on_stop=on_stop)


def _may_be_zero(port: Port) -> bool:
    try:
        validated_on_stop(ZERO, np.dtype(port.dtype), port.shape, port.limits)
    except ValueError:
        return False
    return True
