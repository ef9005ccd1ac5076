"""Decides what each output is left with when the robot is stopped, by what the file and the user declare.

Names decide nothing. `on_stop` decides first, then kind and unit: positions are held, rates and efforts become zero. In
a file with its own observations and further outputs, `obs` and `actions` are for information and are held.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from exploy.contract import Port, PortKind
from exploy.contract.declared_stop import declared_stop, why_undecided
from exploy.contract.on_stop import HOLD, stop_array
from exploy.errors import RuntimeInputError

Outputs = dict[str, np.ndarray]


def _for_information(ports: Sequence[Port]) -> set[str]:
    """Return the outputs that show what the policy saw and said, and are not sent to actuators."""
    seen = {port.name for port in ports if port.kind == PortKind.OBSERVATIONS}
    said = {port.name for port in ports if port.kind == PortKind.ACTIONS}
    is_of_environment = bool(seen) and len(seen) + len(said) < len(ports)
    return seen | said if is_of_environment else seen


class StopValues:
    """What each output is left with on a stop, in the order set by the user.

    Args:
        ports: The outputs, in the order set by the user.
        arrays: Arrays with the dtype and shape of each output.
    """

    def __init__(self, ports: Sequence[Port], arrays: Mapping[str, np.ndarray]):
        shown = _for_information(ports)
        rules = {port.name: declared_stop(port) for port in ports}
        rules |= {name: HOLD for name in shown if rules[name] is None}
        self._undecided = {port.name: why_undecided(port) for port in ports if rules[port.name] is None}
        self.fixed: Outputs = {}
        for name, rule in rules.items():
            value = None if rule is None else stop_array(rule, arrays[name].dtype, arrays[name].shape)
            if value is not None:
                self.fixed[name] = value
        self._held = [name for name in rules if name not in self.fixed and name not in shown]

    @property
    def undecided(self) -> frozenset[str]:
        """The outputs for which nothing says what to do."""
        return frozenset(self._undecided)

    def require_decided(self, why: str, except_for: Collection[str] = ()) -> None:
        """Check that it is known for each output what to do on a stop.

        Raises:
            RuntimeInputError: If not; names the outputs and the lines to add.
        """
        open_ones = {name: reason for name, reason in self._undecided.items() if name not in except_for}
        if open_ones:
            raise RuntimeInputError(f"{why} {undecided_text(open_ones)}")

    def command(self, last: Mapping[str, np.ndarray] | None) -> Outputs | None:
        """Return the outputs to leave the robot with, as new arrays.

        Args:
            last: The last outputs, or None if there are none.

        Returns:
            The stop values, and the last value of each output without one. Without last outputs: the stop values if
            they are all that the robot needs, otherwise None.
        """
        if last is None:
            return None if self._held else {name: value.copy() for name, value in self.fixed.items()}
        return {name: self.fixed.get(name, value).copy() for name, value in last.items()}


def undecided_text(reasons: Mapping[str, str]) -> str:
    """Return a text that names the outputs of no known kind, why, and the line to add."""
    listed = "; ".join(f"{name!r} ({reason})" for name, reason in reasons.items())
    line = ", ".join(f"{name!r}: …" for name in reasons)
    return (
        f"It is not known what to leave these outputs with: {listed}. Say it when loading, "
        f'Controller.load(path, on_stop={{{line}}}), with "hold", "zero" or values; or in the file, by metadata '
        '{"on_stop": …} of the Output or on_stop= at export.'
    )


class StopRamp:
    """Moves outputs from their last values to their stop values, linearly over some time.

    Outputs that are not floats get their stop value at once.

    Args:
        outputs: The arrays to change, by name.
        fixed: The stop values. Outputs without one are held.
        started: The time of the fault, in nanoseconds.
        duration: Nanoseconds until the stop values are reached; 0 for at once.
    """

    def __init__(self, outputs: Mapping[str, np.ndarray], fixed: Mapping[str, np.ndarray], started: int, duration: int):
        self._moves = [(outputs[name], outputs[name].copy(), value) for name, value in fixed.items()]
        self._started = started
        self._duration = duration
        self.is_done = False

    def apply(self, now: int) -> None:
        """Write the values for this time."""
        share = 1.0 if now - self._started >= self._duration else (now - self._started) / self._duration
        self.is_done = share >= 1.0
        for output, start, stop in self._moves:
            if self.is_done or output.dtype.kind != "f":
                output[...] = stop
            else:
                output[...] = (1 - share) * start + share * stop
