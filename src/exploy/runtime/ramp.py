"""Leads an output from where the robot is to where the policy wants it."""

from typing import Any

import numpy as np

from exploy.errors import RuntimeInputError
from exploy.runtime.input_writer import converted


def ramp_start(output: str, start: Any, like: np.ndarray) -> np.ndarray:
    """Where a ramp starts from, as an array of the output's type and shape.

    Raises:
        RuntimeInputError: If it is none, or not finite, or the output does not consist of floats.
    """
    if like.dtype.kind != "f":
        raise RuntimeInputError(f"A ramp needs an output of floats, and {output!r} has {like.dtype}.")
    value = converted(output, start, like)
    if not np.isfinite(value).all():
        raise RuntimeInputError(f"A ramp cannot start from values that are not finite, got {value.tolist()}.")
    return value


def ramp_ticks(seconds: Any, rate: float) -> int:
    """How many ticks a ramp takes.

    Raises:
        RuntimeInputError: If the time is no number of seconds.
    """
    try:
        time = float(seconds)
    except (TypeError, ValueError):
        time = -1.0
    if not 0 <= time * rate < 2**63:
        raise RuntimeInputError(f"A ramp needs a time of 0 or more seconds, got {seconds!r}.")
    return round(time * rate)


class Ramp:
    """A blend from a start value to what the file computes, a little more of the latter at each tick.

    Args:
        name: Name of the output.
        output: Its buffer.
        start: Where the robot is; of the same shape.
        ticks: After how many ticks the output is the file's own.
    """

    def __init__(self, name: str, output: np.ndarray, start: np.ndarray, ticks: int):
        self._name = name
        self._output = output
        self._start = start
        self._ticks = ticks
        self._done = 0

    def apply(self) -> bool:
        """Blend the output of a tick, in place; False once nothing is left to do."""
        self._done += 1
        if self._done >= self._ticks:
            return False
        share = self._output.dtype.type(self._done / self._ticks)
        self._output[...] = (1 - share) * self._start + share * self._output
        return True

    def event(self) -> dict[str, Any]:
        """What a log needs to know to lead the output again."""
        return {"event": "ramp_in", "output": self._name, "start": self._start.tolist(), "ticks": self._ticks}
