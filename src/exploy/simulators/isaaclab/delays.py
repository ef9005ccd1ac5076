"""The delays of Isaac Lab: of observations and of commands to motors."""

from collections.abc import Iterator
from typing import Any

from exploy.simulators.manager_based.memories import require_one_delay, ring_memories
from exploy.simulators.manager_based.robot_ports import RobotPort


def delay_memories(group: str, term: str, buffer: Any) -> Iterator[RobotPort]:
    """The frames of the delay of an observation, and how many there were.

    Raises:
        InvalidEnvironmentError: If the delay is drawn at random.
    """
    said = f"delay of the observation {term!r} in the group {group!r}"
    shortest = buffer.history_length if buffer._hold_prob is None else buffer._min_lag
    require_one_delay(said, shortest, buffer.history_length, "delay_min_lag and delay_max_lag of the term")
    yield from ring_memories(f"delay.{group}.{term}", buffer)
