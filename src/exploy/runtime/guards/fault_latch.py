"""Keeps a controller still after a fault, in the way that was chosen for its guard."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from exploy.errors import Fault, FaultError, Guard, RuntimeInputError
from exploy.runtime.guards.guards import Guards, OnFault, Violation
from exploy.runtime.input_writer import converted

_NOTHING_TO_HOLD = " There are no outputs of an earlier tick to hold."


class FaultLatch:
    """What went wrong since the last reset, and what is to be done about it at every tick.

    Args:
        guards: What to do for which guard.
        on_fault: What guards that are set to "call" call.
        outputs: The outputs that the user reads, by name; they are those of the last good tick.

    Raises:
        RuntimeInputError: If there is something to call and nothing that can be called.
    """

    def __init__(self, guards: Guards, on_fault: OnFault | None, outputs: Mapping[str, np.ndarray]):
        if "call" in {guards.action(guard) for guard in Guard} and not callable(on_fault):
            raise RuntimeInputError(
                f'A guard is set to "call", but there is nothing to call; give on_fault= a function, got {on_fault!r}.'
            )
        self._guards = guards
        self._on_fault = on_fault
        self._outputs = outputs
        self.clear()

    def clear(self) -> None:
        """Forget the fault, and that there are outputs to hold."""
        self.fault: Fault | None = None
        self.has_outputs = False
        self._raises = True  # until a fault has found something to hold, whatever comes in between

    def close(self, found: Violation, tick: int) -> None:
        """Take note of a fault; nothing more is computed."""
        self.fault = Fault(found.guard, tick, found.message, found.port)

    def act(self) -> None:
        """Do what the guard that tripped is set to.

        Raises:
            FaultError: If that is to raise, or there is nothing to hold.
        """
        fault = self.fault
        assert fault is not None
        action = self._guards.action(fault.guard)
        if action == "call" and self._on_fault is not None:
            self._hold(self._on_fault(fault))
        may_hold = action in ("hold", "call")  # a guard that is off trips where nothing could be taken all the same
        if not may_hold or not self.has_outputs:
            raise FaultError(f"{fault}{_NOTHING_TO_HOLD if may_hold else ''}", fault)
        self._raises = False

    def stand_still(self) -> None:
        """Do what the fault asks for at each later tick.

        Raises:
            FaultError: If that is to raise.
        """
        if self._raises and self.fault is not None:
            raise FaultError(f"The controller has stood still since a fault; reset() it. {self.fault}", self.fault)

    def _hold(self, outputs: Mapping[str, Any] | None) -> None:
        """Put outputs that were chosen in the place of the computed ones; all of them, or none if one is unusable."""
        if outputs is not None and not isinstance(outputs, Mapping):
            raise RuntimeInputError(f"on_fault must return a dictionary of outputs or None, got {outputs!r}.")
        chosen = dict(outputs or {})
        unknown = [str(name) for name in chosen if name not in self._outputs]
        if unknown:
            raise RuntimeInputError(f"on_fault returned {', '.join(unknown)}; outputs are {', '.join(self._outputs)}.")
        values = {name: converted(name, value, self._outputs[name]) for name, value in chosen.items()}
        bad = [name for name, value in values.items() if value.dtype.kind == "f" and not np.isfinite(value).all()]
        if bad:
            raise RuntimeInputError(f"on_fault returned values that are not finite for {', '.join(bad)}.")
        for name, value in values.items():
            self._outputs[name][...] = value
        self.has_outputs = self.has_outputs or set(chosen) == set(self._outputs)
