"""What can go wrong while a controller runs, and what is to be done about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from exploy.errors import Fault, Guard, RuntimeInputError

Action = Literal["raise", "hold", "call", "off"]
_ACTIONS = ("raise", "hold", "call", "off")


@dataclass(frozen=True)
class Violation:
    """What a guard found to be wrong, and on which port if on one."""

    guard: Guard
    message: str
    port: str | None = None


OnFault = Callable[[Fault], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Guards:
    """What the controller watches, and what it does when something is wrong.

    `"raise"` raises a FaultError. `"hold"` leaves the outputs at those of the last good tick. `"call"` calls the
    controller's `on_fault` once, whose outputs are then held, or the last good ones where it returns None. `"off"` does
    not look. After a fault the controller computes nothing until it is reset.

    Args:
        inputs: Missing, unknown, wrongly shaped or wrongly typed inputs of `step()`. When off, unknown ones are
            ignored, missing ones keep their value, and other types are converted.
        finite: Values that are not finite, in or out.
        limits: Values beyond the limits that the file declares, in or out.
        stale: Inputs that were not refreshed for longer than allowed; once a rate is armed.
        rate: Ticks that come too early or too late; once a rate is armed.
        overrun: Steps that take longer than their period; once a rate is armed.
        execution: onnxruntime cannot compute a step, for example because of an index that is out of range. Cannot be
            switched off.
        rate_tolerance: By which part of the period a tick may come early or late.
        patience: How many ticks in a row may be late, early or over their period before that is a fault. A single one
            that is late by more periods than that is a fault at once.

    Raises:
        RuntimeInputError: If an action is none of the four, or a number is out of range.
    """

    inputs: Action = "raise"
    finite: Action = "raise"
    limits: Action = "raise"
    stale: Action = "raise"
    rate: Action = "raise"
    overrun: Action = "raise"
    execution: Action = "raise"
    rate_tolerance: float = 0.5
    patience: int = 2

    def __post_init__(self) -> None:
        for guard in Guard:
            if self.action(guard) not in _ACTIONS:
                raise RuntimeInputError(
                    f"The guard {guard} takes one of {', '.join(_ACTIONS)}, got {self.action(guard)!r}."
                )
        if self.execution == "off":
            raise RuntimeInputError("The guard execution cannot be switched off; choose raise, hold or call.")
        if not _is_positive(self.rate_tolerance) or type(self.patience) is not int or self.patience < 0:
            raise RuntimeInputError(
                "rate_tolerance must be a positive number and patience a whole number of 0 or more, "
                f"got {self.rate_tolerance!r} and {self.patience!r}."
            )

    @classmethod
    def off(cls) -> "Guards":
        """Watch nothing but what cannot be computed."""
        return cls(inputs="off", finite="off", limits="off", stale="off", rate="off", overrun="off")

    def action(self, guard: Guard) -> Action:
        """What to do when a guard trips."""
        action: Action = getattr(self, guard.value)
        return action

    def watches(self, guard: Guard) -> bool:
        """Whether a guard is on."""
        return self.action(guard) != "off"


def _is_positive(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < float("inf")
