"""Stops a controller after a fault, and performs the action of the guard."""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from exploy.contract import Port
from exploy.errors import Fault, FaultError, Guard, RuntimeInputError
from exploy.runtime.given_outputs import validated_outputs
from exploy.runtime.guards.guards import Guards, OnFault, Violation
from exploy.runtime.stop_values import StopRamp, StopValues

_NANOSECONDS = 1_000_000_000
_NOTHING_TO_HOLD = " There are no outputs of an earlier tick to hold."


class FaultLatch:
    """The fault since the last reset, and the reaction to it at every tick.

    While a fault is held, positions keep their last good value. Outputs with a stop value get it, at once or over
    `hold_for` seconds.

    Args:
        guards: The action of each guard.
        on_fault: The function that is called by guards set to "call".
        outputs: The outputs that the user reads, by name; they are those of the last good tick.
        hold_for: Seconds after a fault until outputs have their stop values.
        clock: Returns the time in nanoseconds.

    Raises:
        RuntimeInputError: If a guard is set to "call" and `on_fault` is not callable, or `hold_for` is invalid.
    """

    def __init__(
        self,
        guards: Guards,
        on_fault: OnFault | None,
        outputs: Mapping[str, np.ndarray],
        hold_for: float,
        clock: Callable[[], int],
    ):
        if "call" in {guards.action(guard) for guard in Guard} and not callable(on_fault):
            raise RuntimeInputError(f'A guard is set to "call", so on_fault= must be a function, got {on_fault!r}.')
        self._guards = guards
        self._on_fault = on_fault
        self._outputs = outputs
        self._hold_for = _validated_time(hold_for)
        self._clock = clock
        self.clear()

    def wire(self, ports: Mapping[str, Port], stops: StopValues) -> None:
        """Use the ports and stop values of the current element order.

        Raises:
            RuntimeInputError: If a guard is set to "hold", and it is not known what to do with an output.
        """
        self._ports = ports
        self._stops = stops
        if "hold" in {self._guards.action(guard) for guard in Guard}:
            stops.require_decided('A guard is set to "hold".')

    def clear(self) -> None:
        """Clear the fault, and the flag that there are outputs to hold."""
        self.fault: Fault | None = None
        self.has_outputs = False
        self._raises = True  # until there is something to hold; stays True if on_fault raises
        self._ramp: StopRamp | None = None

    def close(self, found: Violation, tick: int) -> None:
        """Store a fault; nothing is computed from now on."""
        self.fault = Fault(found.guard, tick, found.message, found.port)

    def act(self) -> None:
        """Perform the action of the guard that tripped.

        Raises:
            FaultError: If the action is to raise, or there is nothing to hold.
            RuntimeInputError: If `on_fault` returns invalid outputs. The outputs then have their stop values.
        """
        fault = self.fault
        assert fault is not None
        action = self._guards.action(fault.guard)
        if action not in ("hold", "call"):  # a disabled guard still trips if the inputs are unusable
            raise FaultError(str(fault), fault)
        chosen: dict[str, np.ndarray] = {}
        if action == "call" and self._on_fault is not None:
            try:
                chosen = self._chosen(self._on_fault(fault))
            except BaseException:
                self._hold({}, 0)
                raise
        if not self.has_outputs and set(chosen) != set(self._outputs):
            raise FaultError(f"{fault}{_NOTHING_TO_HOLD}", fault)
        self._hold(chosen, self._hold_for)
        try:
            self._stops.require_decided(str(fault), except_for=chosen)
        except RuntimeInputError as error:
            raise FaultError(str(error), fault) from None
        self.has_outputs = True
        self._raises = False

    def stand_still(self) -> None:
        """Perform the action for a tick after the fault.

        Raises:
            FaultError: If the action is to raise.
        """
        if self._raises and self.fault is not None:
            raise FaultError(f"The controller is stopped after a fault; call reset(). {self.fault}", self.fault)
        if self._ramp is not None and not self._ramp.is_done:
            self._ramp.apply(self._clock())

    def _hold(self, chosen: Mapping[str, np.ndarray], duration: int) -> None:
        """Write the chosen outputs, and begin to move the others to their stop values."""
        for name, value in chosen.items():
            self._outputs[name][...] = value
        if not self.has_outputs:
            return
        fixed = {name: value for name, value in self._stops.fixed.items() if name not in chosen}
        now = self._clock()
        self._ramp = StopRamp(self._outputs, fixed, now, duration)
        self._ramp.apply(now)

    def _chosen(self, outputs: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
        if outputs is None:
            return {}
        limits = self._guards.watches(Guard.LIMITS)
        return validated_outputs("on_fault", outputs, self._outputs, self._ports, check_limits=limits)


def _validated_time(seconds: Any) -> int:
    """Return a duration in nanoseconds."""
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not is_number or not 0 <= (nanoseconds := float(seconds) * _NANOSECONDS) < 2**63:
        raise RuntimeInputError(f"hold_for must be 0 or more seconds, got {seconds!r}.")
    return round(nanoseconds)
