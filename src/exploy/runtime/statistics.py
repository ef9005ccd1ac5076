"""Statistics of tick durations."""

from array import array
from dataclasses import dataclass

import numpy as np

_WINDOW = 1 << 13  # number of ticks per kind of step that percentiles are computed from
_PER_SECOND = 1e9


@dataclass(frozen=True)
class Latency:
    """Durations of ticks of one kind, in seconds; zeros if there were none.

    The percentiles cover the most recent ticks. The worst duration covers all ticks.
    """

    count: int
    p50: float
    p99: float
    worst: float


@dataclass(frozen=True)
class Stats:
    """Tick durations in seconds, and the number of ticks that took longer than their period."""

    ticks: int
    p50: float
    p99: float
    worst: float
    overruns: int
    policy: Latency
    sub_step: Latency

    def __str__(self) -> str:
        return (
            f"{self.ticks} ticks: p50 {1e6 * self.p50:.1f} µs, p99 {1e6 * self.p99:.1f} µs, "
            f"worst {1e6 * self.worst:.1f} µs, {self.overruns} overruns"
        )


class Durations:
    """The durations of the most recent ticks of one kind of step, in nanoseconds."""

    def __init__(self) -> None:
        self._ring = array("q", bytes(8 * _WINDOW))
        self._count = 0
        self._worst = 0

    def add(self, nanoseconds: int) -> None:
        """Add the duration of a tick."""
        self._ring[self._count % _WINDOW] = nanoseconds
        self._count += 1
        if nanoseconds > self._worst:
            self._worst = nanoseconds

    @property
    def recent(self) -> np.ndarray:
        """The stored durations."""
        return np.array(self._ring[: min(self._count, _WINDOW)], dtype=np.int64)

    def latency(self) -> Latency:
        """Return the statistics of the durations."""
        return Latency(self._count, *percentiles(self.recent), self._worst / _PER_SECOND)


def percentiles(nanoseconds: np.ndarray) -> tuple[float, float]:
    """Return the median and the 99th percentile, in seconds."""
    if not nanoseconds.size:
        return 0.0, 0.0
    p50, p99 = np.percentile(nanoseconds, [50, 99]) / _PER_SECOND
    return float(p50), float(p99)


def stats_of(policy: Durations, sub_step: Durations, overruns: int) -> Stats:
    """Combine the statistics of both kinds of steps."""
    first, second = policy.latency(), sub_step.latency()
    p50, p99 = percentiles(np.concatenate([policy.recent, sub_step.recent]))
    worst = max(first.worst, second.worst)
    return Stats(first.count + second.count, p50, p99, worst, overruns, first, second)
