"""Blends an output from the robot's current value to the value that the policy computes."""

from typing import Any

import numpy as np

from exploy.errors import RuntimeInputError
from exploy.runtime.input_writer import converted


def ramp_start(output: str, start: Any, like: np.ndarray) -> np.ndarray:
    """Return the start value of a ramp as an array with the dtype and shape of the output.

    Raises:
        RuntimeInputError: If it cannot be converted or is not finite, or if the output does not have a float dtype.
    """
    if like.dtype.kind != "f":
        raise RuntimeInputError(f"A ramp needs an output with a float dtype, but {output!r} has {like.dtype}.")
    value = converted(output, start, like)
    if not np.isfinite(value).all():
        raise RuntimeInputError(f"A ramp must start from finite values, got {value.tolist()}.")
    return value


def ramp_ticks(seconds: Any, rate: float) -> int:
    """Return the number of ticks of a ramp.

    Raises:
        RuntimeInputError: If the time is not a valid number of seconds.
    """
    try:
        time = float(seconds)
    except (TypeError, ValueError):
        time = -1.0
    if not 0 <= time * rate < 2**63:
        raise RuntimeInputError(f"The duration of a ramp must be 0 or more seconds, got {seconds!r}.")
    return round(time * rate)


class Ramp:
    """A linear blend from a start value to what the file computes.

    Args:
        name: Name of the output.
        output: Its buffer.
        start: The start value; same shape.
        ticks: Number of ticks after which the output is what the file computes.
    """

    def __init__(self, name: str, output: np.ndarray, start: np.ndarray, ticks: int):
        self._name = name
        self._output = output
        self._start = start
        self._ticks = ticks
        self._done = 0

    def apply(self) -> bool:
        """Blend the output of a tick in place; return False once the ramp is complete."""
        self._done += 1
        if self._done >= self._ticks:
            return False
        share = self._output.dtype.type(self._done / self._ticks)
        self._output[...] = (1 - share) * self._start + share * self._output
        return True

    def event(self) -> dict[str, Any]:
        """Return the log event from which the ramp can be replayed."""
        return {"event": "ramp_in", "output": self._name, "start": self._start.tolist(), "ticks": self._ticks}
