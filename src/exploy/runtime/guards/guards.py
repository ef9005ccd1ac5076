"""The guards of a controller, and their actions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from exploy.errors import Fault, Guard, RuntimeInputError

Action = Literal["raise", "hold", "call", "off"]
_ACTIONS = ("raise", "hold", "call", "off")


@dataclass(frozen=True)
class Violation:
    """A problem that a guard found, with its port if there is a single one."""

    guard: Guard
    message: str
    port: str | None = None


OnFault = Callable[[Fault], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Guards:
    """What the controller checks, and what it does when a check fails.

    `"raise"` raises a FaultError. `"hold"` keeps positions at those of the last good tick and sets outputs that would
    move the robot to their stop values. `"call"` calls the controller's `on_fault` once and holds the outputs that it
    returns; all others as with `"hold"`. `"off"` disables the check. After a fault, the controller computes nothing
    until it is reset.

    Args:
        inputs: Inputs of `step()` that are missing, unknown, or have the wrong shape or dtype. If off, unknown inputs
            are ignored, missing inputs keep their value, and other dtypes are converted.
        finite: Non-finite inputs, outputs or memories.
        limits: Inputs or outputs beyond the limits in the file.
        stale: Inputs that were not refreshed in time; once a rate is armed.
        rate: Ticks that miss their deadlines, or come too early; once a rate is armed.
        overrun: Steps that take longer than their period; once a rate is armed.
        execution: onnxruntime cannot compute a step, for example because an index is out of range. Cannot be disabled.
        rate_tolerance: Fraction of the period by which a tick may be early or late.
        patience: Number of periods in a row that may be missed before this is a fault, by one late tick or by several;
            and number of steps in a row that may take longer than their period.

    Raises:
        RuntimeInputError: If an action is not one of the four, or a number is out of range.
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
                    f"The guard {guard} must be one of {', '.join(_ACTIONS)}, got {self.action(guard)!r}."
                )
        if self.execution == "off":
            raise RuntimeInputError("The guard execution cannot be disabled; choose raise, hold or call.")
        if not _is_positive(self.rate_tolerance) or type(self.patience) is not int or self.patience < 0:
            raise RuntimeInputError(
                "rate_tolerance must be a positive number and patience an integer of 0 or more, "
                f"got {self.rate_tolerance!r} and {self.patience!r}."
            )

    @classmethod
    def off(cls) -> "Guards":
        """Disable all guards except `execution`."""
        return cls(inputs="off", finite="off", limits="off", stale="off", rate="off", overrun="off")

    def action(self, guard: Guard) -> Action:
        """Return the action of a guard."""
        action: Action = getattr(self, guard.value)
        return action

    def watches(self, guard: Guard) -> bool:
        """Return whether a guard is enabled."""
        return self.action(guard) != "off"


def _is_positive(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < float("inf")
