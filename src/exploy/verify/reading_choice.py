"""Which of several computations of observations in a step has given the observations that the step returns."""

import numpy as np
import torch

from exploy.capture.program import OBSERVATIONS
from exploy.environment.tensor_copies import to_numpy
from exploy.verify.fed_back_file import FedBackFile
from exploy.verify.step_observer import Reading
from exploy.verify.stepped import Values, same_values


def reading_of(observations: torch.Tensor, readings: list[Reading], file: FedBackFile) -> Reading:
    """The reading from which the file computes what is nearest to the observations; the last of those that are equal.

    A step may compute observations more than once: of the last state before a reset, of a mirrored state, for a critic.

    Args:
        observations: The observations that were returned.
        readings: What each computation has started from, one at least.
        file: The file.
    """
    last = readings[-1]
    others = [item for item in readings[:-1] if not _same(item, last)]
    if not others:
        return last
    expected = to_numpy(observations)
    return min([last, *reversed(others)], key=lambda item: _error(item, expected, file))


def with_later_memories(reading: Reading, later: Values, file: FedBackFile) -> Reading:
    """The reading with values that memories got after it, where observations do not depend on these memories.

    What counts is the value that the next step finds.

    Args:
        reading: What observations were computed from.
        later: Memories that have changed since.
        file: The file.
    """
    for name, value in later.items():
        changed = Reading(reading.inputs, reading.memories | {name: value})
        if np.array_equal(_observed(reading, file), _observed(changed, file), equal_nan=True):
            reading = changed
    return reading


def _observed(reading: Reading, file: FedBackFile) -> np.ndarray:
    return file.try_policy_step(reading.memories | reading.inputs)[OBSERVATIONS]


def _same(one: Reading, two: Reading) -> bool:
    return same_values(one.inputs, two.inputs) and same_values(one.memories, two.memories)


def _error(reading: Reading, expected: np.ndarray, file: FedBackFile) -> float:
    got = _observed(reading, file)
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - expected)
    return float(np.where(np.isnan(got) & np.isnan(expected), 0.0, error).max(initial=0.0))
