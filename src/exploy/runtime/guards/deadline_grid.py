"""Counts the periods that a loop misses, against a grid of deadlines."""

import math

_FOLLOWED = 0.05
"""Fraction of a period by which the grid follows the loop at every tick. A clock that is off by less is followed; a
larger drift adds up until periods are missed."""


_SERVED_EARLY = 0.25
"""Fraction of a period before a deadline from which a late tick stands for this deadline as well. Loops skip deadlines
that have passed when a late tick is done."""


class DeadlineGrid:
    """Deadlines one period apart, each of which expects a tick, and the number of periods missed in a row.

    A late tick misses as many periods as deadlines passed since the last tick, and uses them up. An early tick that
    makes up for one of these takes it back, and so does a tick on its deadline. Other early ticks count as one each. A
    tick on its deadline, one period after the last tick, ends the count; so do two ticks in a row that are one period
    apart. So a loop may skip deadlines after a late tick, catch up, or go on from there. While ticks are one period
    apart, the grid follows them slowly, and their distance from it counts as well: a drift adds up.

    Args:
        period: Nanoseconds between deadlines.
        tolerance: Fraction of the period by which a tick may be early or late.
    """

    def __init__(self, period: int, tolerance: float):
        self._period = period
        self._tolerance = tolerance
        self._allowed = tolerance * period
        self._followed = round(_FOLLOWED * period)
        self.restart()

    def restart(self) -> None:
        """Let the next tick be the first."""
        self.missed = 0
        self._in_a_row = 0
        self._owed = 0  # ticks that may follow early, to make up for missed deadlines
        self._last: int | None = None
        self._deadline = 0
        self._was_steady = True
        self._was_early = False

    def missed_with(self, now: int) -> int:
        """Return the number of periods missed in a row, including those before a tick at this time."""
        last, self._last = self._last, now
        if last is None:
            self._deadline = now + self._period
            return 0
        off, excess = now - self._deadline, now - last - self._period
        was_steady, self._was_steady = self._was_steady, abs(excess) < self._allowed
        was_early, self._was_early = self._was_early, False
        if self._was_steady:
            if was_steady or (abs(off) < self._allowed and not was_early):
                self._in_a_row = self._owed = 0
            if not was_steady:  # deadlines that the loop has skipped are used up
                skipped = round(off / self._period) * self._period
                self._deadline += skipped
                off -= skipped
            self._deadline += self._period + max(-self._followed, min(self._followed, off))
            self.missed = max(self._in_a_row, self._periods(abs(off)))
            return self.missed
        if excess > 0 and off >= self._allowed:
            self._owed = self._periods(min(off, excess))
            self._in_a_row += self._owed
            self._deadline += (math.floor(off / self._period + _SERVED_EARLY) + 1) * self._period
        elif off > -self._allowed:
            self._deadline += self._period
            self._in_a_row -= 1 if self._in_a_row and not was_early else 0
        elif self._owed:
            self._owed -= 1
            self._in_a_row -= 1 if self._in_a_row else 0
        else:
            self._in_a_row += 1
            self._was_early = True
        self.missed = self._in_a_row
        return self.missed

    def _periods(self, time: int) -> int:
        """Return the number of deadlines that were missed by more than the tolerance, after this time."""
        return max(0, math.ceil(time / self._period - self._tolerance))
