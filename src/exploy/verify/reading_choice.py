"""Which of several computations of observations in a step has given the observations that the step returns."""

from exploy.comparison import absolute_error
from exploy.environment.exportable_environment import Observations
from exploy.environment.observations import observation_arrays
from exploy.verify.fed_back_file import FedBackFile
from exploy.verify.step_observer import Reading
from exploy.verify.stepped import Values, same_values


def reading_of(observations: Observations, readings: list[Reading], file: FedBackFile) -> Reading:
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
    expected = observation_arrays(observations)
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
        if same_values(_observed(reading, file), _observed(changed, file)):
            reading = changed
    return reading


def _observed(reading: Reading, file: FedBackFile) -> Values:
    results = file.try_policy_step(reading.memories | reading.inputs)
    return {name: results[name] for name in file.observation_outputs}


def _same(one: Reading, two: Reading) -> bool:
    return same_values(one.inputs, two.inputs) and same_values(one.memories, two.memories)


def _error(reading: Reading, expected: Values, file: FedBackFile) -> float:
    """The largest error of the observations that the file computes from a reading."""
    got = _observed(reading, file)
    return max(float(absolute_error(expected[name], value).max(initial=0.0)) for name, value in got.items())
