"""Counts the periods that a loop misses, against a grid of deadlines."""

import math

_FOLLOWED = 0.1
"""Share of a small deviation by which the grid follows the ticks. A clock that is off by less than this share of the
tolerance is followed without end; a larger drift adds up until deadlines are missed."""


class DeadlineGrid:
    """Deadlines one period apart, each of which expects a tick, and the number of periods missed in a row.

    A late tick misses as many periods as deadlines passed without one. Ticks that make up for these are not counted.
    Other ticks that come before their deadline count as one each. A tick on time takes one back, and ends the count if
    it comes one period after the last. After an irregular tick, the loop may keep to the old deadlines, or go on one
    period after that tick: the grid then moves with it.

    Args:
        period: Nanoseconds between deadlines.
        tolerance: Fraction of the period by which a tick may be early or late.
    """

    def __init__(self, period: int, tolerance: float):
        self._period = period
        self._tolerance = tolerance
        self._allowed = tolerance * period
        self.restart()

    def restart(self) -> None:
        """Let the next tick be the first."""
        self.missed = 0
        self._owed = 0  # ticks that may follow early, to make up for missed deadlines
        self._last: int | None = None
        self._deadline = 0
        self._was_early = False
        self._moved: int | None = None  # the next deadline, if the loop goes on from its last, irregular tick

    def missed_with(self, now: int) -> int:
        """Return the number of periods missed in a row, including those before a tick at this time."""
        last, self._last = self._last, now
        if last is None:
            self._deadline = now + self._period
            return 0
        off = now - self._deadline
        is_steady = abs(now - last - self._period) < self._allowed
        moved, self._moved = self._moved, None
        was_early, self._was_early = self._was_early, False
        if abs(off) < self._allowed:
            if is_steady:
                self.missed = self._owed = 0
            elif self.missed and not was_early:
                self.missed -= 1
        elif moved is not None and abs(now - moved) < self._allowed:
            self._deadline, off = moved, now - moved
        else:
            self._count(now, off, is_steady)
            return self.missed
        self._deadline += self._period + round(_FOLLOWED * off)
        return self.missed

    def _count(self, now: int, off: int, is_steady: bool) -> None:
        """Count a tick off the grid."""
        if not is_steady:
            self._moved = now + self._period
        if off > 0:
            missed = max(1, math.ceil(off / self._period - self._tolerance))
            self.missed += missed
            self._owed = missed
            self._deadline += (off // self._period + 1) * self._period
            return
        if self._owed:
            self._owed -= 1
            return
        self.missed += 1
        self._was_early = True
        if is_steady:  # a loop that is too fast uses up deadlines; a single additional tick does not
            self._deadline += self._period
