"""Stops a controller after a fault, and performs the action of the guard."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from exploy.errors import Fault, FaultError, Guard, RuntimeInputError
from exploy.runtime.guards.guards import Guards, OnFault, Violation
from exploy.runtime.input_writer import converted

_NOTHING_TO_HOLD = " There are no outputs of an earlier tick to hold."


class FaultLatch:
    """The fault since the last reset, and the reaction to it at every tick.

    Args:
        guards: The action of each guard.
        on_fault: The function that is called by guards set to "call".
        outputs: The outputs that the user reads, by name; they are those of the last good tick.

    Raises:
        RuntimeInputError: If a guard is set to "call" and `on_fault` is not callable.
    """

    def __init__(self, guards: Guards, on_fault: OnFault | None, outputs: Mapping[str, np.ndarray]):
        if "call" in {guards.action(guard) for guard in Guard} and not callable(on_fault):
            raise RuntimeInputError(f'A guard is set to "call", so on_fault= must be a function, got {on_fault!r}.')
        self._guards = guards
        self._on_fault = on_fault
        self._outputs = outputs
        self.clear()

    def clear(self) -> None:
        """Clear the fault, and the flag that there are outputs to hold."""
        self.fault: Fault | None = None
        self.has_outputs = False
        self._raises = True  # until there is something to hold; stays True if on_fault raises

    def close(self, found: Violation, tick: int) -> None:
        """Store a fault; nothing is computed from now on."""
        self.fault = Fault(found.guard, tick, found.message, found.port)

    def act(self) -> None:
        """Perform the action of the guard that tripped.

        Raises:
            FaultError: If the action is to raise, or there is nothing to hold.
            RuntimeInputError: If `on_fault` returns invalid outputs.
        """
        fault = self.fault
        assert fault is not None
        action = self._guards.action(fault.guard)
        if action == "call" and self._on_fault is not None:
            self._hold(self._on_fault(fault))
        may_hold = action in ("hold", "call")  # a disabled guard still trips if the inputs are unusable
        if not may_hold or not self.has_outputs:
            raise FaultError(f"{fault}{_NOTHING_TO_HOLD if may_hold else ''}", fault)
        self._raises = False

    def stand_still(self) -> None:
        """Perform the action for a tick after the fault.

        Raises:
            FaultError: If the action is to raise.
        """
        if self._raises and self.fault is not None:
            raise FaultError(f"The controller is stopped after a fault; call reset(). {self.fault}", self.fault)

    def _hold(self, outputs: Mapping[str, Any] | None) -> None:
        """Replace the computed outputs by chosen ones. If one of these is invalid, none is replaced."""
        if outputs is not None and not isinstance(outputs, Mapping):
            raise RuntimeInputError(f"on_fault must return a dictionary of outputs or None, got {outputs!r}.")
        chosen = dict(outputs or {})
        unknown = [str(name) for name in chosen if name not in self._outputs]
        if unknown:
            raise RuntimeInputError(
                f"on_fault returned unknown outputs: {', '.join(unknown)}. The outputs are {', '.join(self._outputs)}."
            )
        values = {name: converted(name, value, self._outputs[name]) for name, value in chosen.items()}
        bad = [name for name, value in values.items() if value.dtype.kind == "f" and not np.isfinite(value).all()]
        if bad:
            raise RuntimeInputError(f"on_fault must return finite values; not finite: {', '.join(bad)}.")
        for name, value in values.items():
            self._outputs[name][...] = value
        self.has_outputs = self.has_outputs or set(chosen) == set(self._outputs)
