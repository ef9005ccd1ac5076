"""Checks all values of a tick at once; single elements are only searched if this check fails."""

from collections.abc import Mapping

import numpy as np

from exploy.contract import Port
from exploy.contract.bounds import LIMITED_KINDS, bounds, extremes
from exploy.errors import Guard
from exploy.runtime.arena import Arena
from exploy.runtime.engine import INPUT, OUTPUT, Engine, Key
from exploy.runtime.guards.guards import Violation


class FiniteCheck:
    """Checks that all guarded values of an engine are finite: inputs, outputs and memories.

    Args:
        engine: The buffers.
        ports: The ports, with names in the order set by the user.
    """

    def __init__(self, engine: Engine, ports: Mapping[str, Port]):
        self._engine = engine
        self._ports = ports
        self._flats = []
        for flat in (flat for dtype, flat in engine.guarded.flat.items() if dtype.kind == "f"):
            flags = bytearray(flat.size)  # faster to search for a zero than with numpy
            self._flats.append((flat, flags, np.frombuffer(flags, dtype=np.bool_)))

    def finding(self) -> Violation | None:
        """Return the first value that is not finite, inputs first; None if all are finite."""
        for flat, flags, is_finite in self._flats:
            np.isfinite(flat, is_finite)
            if 0 in flags:
                return self._search()
        return None

    def _search(self) -> Violation | None:
        for key, array in self._engine.guarded.arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return self._describe(key, _first(~np.isfinite(array)))
        return None

    def _describe(self, key: Key, index: tuple[int, ...]) -> Violation:
        what, name = key
        value = self._engine.buffer(key)[index]
        if what not in (INPUT, OUTPUT):
            return Violation(Guard.FINITE, f"the memory {name!r}, element {list(index)}, became {value}.", name)
        hint = " Was it ever written?" if what == INPUT and np.isnan(value) else ""
        element = _element(key, index, self._engine, self._ports)
        return Violation(Guard.FINITE, f"the {what} {name!r}, {element}, is {value}.{hint}", name)


class LimitCheck:
    """Checks that the values of all ports with limits are within these limits.

    Args:
        engine: The buffers.
        ports: The ports, with names and limits in the order set by the user. Input buffers have the same order. Output
            buffers are in the order of the file.
    """

    def __init__(self, engine: Engine, ports: Mapping[str, Port]):
        described = [(INPUT, ports[port.name]) for port in engine.parts.inputs]
        described += [(OUTPUT, port) for port in engine.parts.outputs]
        limited = {
            (what, port.name): port
            for what, port in described
            if port.limits and np.dtype(port.dtype).kind in LIMITED_KINDS
        }
        self._engine = engine
        self._shown = ports
        self._ports = limited
        self._bounds = {key: bounds(port.limits, np.dtype(port.dtype)) for key, port in limited.items()}
        self._flats: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        for arena in (engine.guarded, engine.unguarded):
            for dtype in {engine.buffer(key).dtype for key in limited if key in arena.arrays}:
                self._flats.append(self._flat(arena, dtype))

    def finding(self) -> Violation | None:
        """Return the first value beyond its limits, inputs first; None if there is none. NaN is not reported."""
        for flat, low, high, clipped in self._flats:
            np.maximum(flat, low, out=clipped)
            np.minimum(clipped, high, out=clipped)
            if clipped.tobytes() != flat.tobytes():
                return self._search()
        return None

    def _flat(self, arena: Arena[Key], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the values of one dtype, their bounds, and a buffer for clipped values, all as flat arrays."""
        flat = arena.flat[dtype]
        low, high = (np.full(flat.shape, extreme, dtype) for extreme in extremes(dtype))
        for key, pair in self._bounds.items():
            array = arena.arrays.get(key)
            if array is not None and array.dtype == dtype:
                for target, bound in zip((low, high), pair, strict=True):
                    target[arena.span(key)] = np.broadcast_to(bound, array.shape).reshape(-1)
        return flat, low, high, np.empty_like(flat)

    def _search(self) -> Violation | None:
        for key, port in self._ports.items():
            array, (low, high) = self._engine.buffer(key), self._bounds[key]
            beyond = ((array < low) | (array > high)) & (port.finite | np.isfinite(array))
            if beyond.any():
                index = _first(beyond)
                allowed = " and ".join(f"{bound[index[-1]] if bound.ndim else bound:g}" for bound in (low, high))
                what = f"the {key[0]} {port.name!r}, {_element(key, index, self._engine, self._shown)}"
                return Violation(Guard.LIMITS, f"{what}, is {array[index]}; its limits are {allowed}.", port.name)
        return None


def _element(key: Key, index: tuple[int, ...], engine: Engine, shown: Mapping[str, Port]) -> str:
    """Format an element of a buffer for messages, in the order set by the user."""
    what, name = key
    order = shown[name].names
    stored = order if what == INPUT else engine.port(name).names
    if order is None or stored is None:
        return f"element {list(index)}"
    element = stored[index[-1]]
    return f"element {[*index[:-1], order.index(element)]} ({element})"


def _first(flags: np.ndarray) -> tuple[int, ...]:
    return tuple(int(position) for position in np.argwhere(flags)[0])
