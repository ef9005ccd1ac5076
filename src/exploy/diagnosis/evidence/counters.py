"""Python numbers that a step of the environment advances by the same amount each time."""

import collections
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

_MIN_STEPS_ALIKE = 2


@dataclass(frozen=True)
class Counter:
    """A number, what each policy step adds to it, and how many more steps it was seen to go on; None if forever."""

    value: int | float
    rate: int | float
    steps: int | None = None

    def after(self, steps: int) -> int | float:
        """The number after some more policy steps."""
        return self.value + self.rate * (steps if self.steps is None else min(steps, self.steps))


@dataclass
class CounterWatch:
    """Finds counters among Python values that are noted after each step.

    Args:
        start: The values before the first step, by path.
    """

    start: Mapping[str, object] = field(default_factory=dict)
    _last: dict[str, object] = field(default_factory=dict)
    _rates: dict[str, collections.Counter[float]] = field(default_factory=dict)

    def note(self, values: Mapping[str, object]) -> None:
        """Note the current values of Python numbers that have changed since the start, by path."""
        for attr_path, value in values.items():
            before = self._last.get(attr_path, self.start.get(attr_path))
            if _is_number(value) and type(before) is type(value):
                rates = self._rates.setdefault(attr_path, collections.Counter())
                rates[_rounded(value - before)] += 1  # type: ignore[operator]
        self._last.update(values)

    def counters(self) -> dict[str, Counter]:
        """The numbers that went on by the same amount at least twice, and more often than not."""
        found = {}
        for attr_path, rates in self._rates.items():
            rate, count = rates.most_common(1)[0]
            value = self._last[attr_path]
            if rate and count >= _MIN_STEPS_ALIKE and 2 * count > rates.total():
                assert isinstance(value, int | float)
                found[attr_path] = Counter(value, int(rate) if isinstance(value, int) else rate)
        return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _rounded(number: float) -> float:
    """A rate without the rounding errors of a sum of floats."""
    return float(f"{number:.6g}")
