"""Leads an output from where the robot is to where the policy wants it."""

import numpy as np


class Ramp:
    """A blend from a start value to what the file computes, a little more of the latter at each tick.

    Args:
        output: The buffer of the output.
        start: Where the robot is; of the same shape.
        ticks: After how many ticks the output is the file's own.
    """

    def __init__(self, output: np.ndarray, start: np.ndarray, ticks: int):
        self._output = output
        self._start = start
        self._ticks = ticks
        self._done = 0

    def apply(self) -> bool:
        """Blend the output of a tick, in place; False once nothing is left to do."""
        self._done += 1
        if self._done >= self._ticks:
            return False
        self._output[...] = self._start + (self._done / self._ticks) * (self._output - self._start)
        return True
