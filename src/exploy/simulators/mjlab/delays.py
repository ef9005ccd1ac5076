"""The delays of mjlab's observations."""

from collections.abc import Iterator
from typing import Any

from exploy.simulators.manager_based.memories import memory, require_one_delay, ring_memories
from exploy.simulators.manager_based.robot_ports import RobotPort


def delay_memories(group: str, term: str, buffer: Any) -> Iterator[RobotPort]:
    """What a delay keeps: its frames, its lag, and its steps.

    Raises:
        InvalidEnvironmentError: If the delay is drawn at random.
    """
    name = f"delay.{group}.{term}"
    said = f"delay of the observation {term!r} in the group {group!r}"
    require_one_delay(said, buffer.min_lag, buffer.max_lag, "delay_min_lag and delay_max_lag of the term")
    yield from ring_memories(name, buffer._buffer)
    yield memory(f"{name}.lag", buffer, "_current_lags")
    yield memory(f"{name}.steps", buffer, "_step_count")
