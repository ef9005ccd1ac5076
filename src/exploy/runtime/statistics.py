"""How long ticks take."""

from array import array
from dataclasses import dataclass

import numpy as np

_WINDOW = 1 << 13  # ticks of each kind of step that the percentiles are taken from
_PER_SECOND = 1e9


@dataclass(frozen=True)
class Latency:
    """How long ticks of one kind took, in seconds; zeros where there were none.

    The percentiles are those of the last ticks, the worst one is that of all since the statistics were started.
    """

    count: int
    p50: float
    p99: float
    worst: float


@dataclass(frozen=True)
class Stats:
    """How long ticks took, in seconds, and how many took longer than their period."""

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
    """The durations of the last ticks of one kind of step, in nanoseconds."""

    def __init__(self) -> None:
        self._ring = array("q", bytes(8 * _WINDOW))
        self._count = 0
        self._worst = 0

    def add(self, nanoseconds: int) -> None:
        """Note the duration of a tick."""
        self._ring[self._count % _WINDOW] = nanoseconds
        self._count += 1
        if nanoseconds > self._worst:
            self._worst = nanoseconds

    @property
    def recent(self) -> np.ndarray:
        """The durations that are known."""
        return np.array(self._ring[: min(self._count, _WINDOW)], dtype=np.int64)

    def latency(self) -> Latency:
        """What they say."""
        return Latency(self._count, *percentiles(self.recent), self._worst / _PER_SECOND)


def percentiles(nanoseconds: np.ndarray) -> tuple[float, float]:
    """The median and the 99th percentile, in seconds."""
    if not nanoseconds.size:
        return 0.0, 0.0
    p50, p99 = np.percentile(nanoseconds, [50, 99]) / _PER_SECOND
    return float(p50), float(p99)


def stats_of(policy: Durations, sub_step: Durations, overruns: int) -> Stats:
    """The statistics of both kinds of steps together."""
    first, second = policy.latency(), sub_step.latency()
    p50, p99 = percentiles(np.concatenate([policy.recent, sub_step.recent]))
    worst = max(first.worst, second.worst)
    return Stats(first.count + second.count, p50, p99, worst, overruns, first, second)
