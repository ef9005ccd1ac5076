"""Monitors time once a rate is armed: ticks off the rate, steps that take too long, stale inputs."""

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from exploy.contract import Contract
from exploy.errors import Guard, RuntimeInputError
from exploy.runtime.guards.deadline_grid import DeadlineGrid
from exploy.runtime.guards.guards import Guards, Violation

_NANOSECONDS = 1_000_000_000
_RATE_MARGIN = 0.01
_POLICY_PERIODS = 2  # default age limit of inputs


def validated_rate(hz: float, contract: Contract, *, of_the_file: bool = True) -> float:
    """Return a valid tick rate. If `of_the_file`, it must be the tick rate of the file.

    Raises:
        RuntimeInputError: If it is not a positive number, or not the tick rate of the exported simulation.
    """
    if isinstance(hz, bool) or not isinstance(hz, Real) or not 0 < hz < float("inf"):
        raise RuntimeInputError(f"A rate must be a positive number of ticks per second, got {hz!r}.")
    if of_the_file and contract.sim_dt is not None and abs(hz * contract.sim_dt - 1) > _RATE_MARGIN:
        policy = f" (its policy runs every {contract.decimation} ticks)" if contract.decimation > 1 else ""
        raise RuntimeInputError(
            f"The file was made for {1 / contract.sim_dt:g} ticks per second{policy}, got hz={hz:g}. Use that rate."
        )
    return float(hz)


class RateWatch:
    """The time of the last tick, the grid of deadlines, and the time of the last refresh of each input.

    Args:
        hz: Ticks per second.
        contract: The contract of the file.
        guards: What to check.
        max_age: Seconds after which an input is stale, by name; two policy periods for all other inputs.
        inputs: Names of all inputs.
    """

    def __init__(
        self, hz: float, contract: Contract, guards: Guards, max_age: Mapping[str, float], inputs: Iterable[str]
    ):
        self.hz = validated_rate(hz, contract)
        self.period = round(_NANOSECONDS / self.hz)
        default = _POLICY_PERIODS * contract.decimation / self.hz
        self._guards = guards
        self._watches_stale, self._watches_rate = guards.watches(Guard.STALE), guards.watches(Guard.RATE)
        self._max_age = {name: _NANOSECONDS * max_age.get(name, default) for name in inputs}
        self._shortest = min(self._max_age.values(), default=0.0)
        self._unused = contract.unused_inputs
        self._grid = DeadlineGrid(self.period, guards.rate_tolerance)
        self.restart()

    def restart(self) -> None:
        """Clear all times; the next tick is the first."""
        self._grid.restart()
        self._last: int | None = None
        self._overran = 0
        self._all_refreshed: int | None = None
        self._refreshed: dict[str, float] = {}  # since all inputs were refreshed together

    def mark(self, names: Iterable[str], now: float) -> None:
        """Record that inputs were refreshed."""
        for name in names:
            self._refreshed[name] = now

    def take(self, values: Mapping[str, Any], ages: Mapping[str, float] | None, now: int) -> None:
        """Record that inputs were given, and the age of those that were measured earlier.

        Raises:
            RuntimeInputError: If an age is not a number of seconds, or an input is unknown.
        """
        if all(map(values.__contains__, self._max_age)):
            self._all_refreshed = now
            self._refreshed.clear()
        else:
            self.mark((name for name in self._max_age if name in values), now)
        if ages is None:
            return
        if not isinstance(ages, Mapping):
            raise RuntimeInputError(f"ages must be a dictionary of seconds by input, got {ages!r}.")
        for name, age in ages.items():
            is_known = name in self._max_age or name in self._unused
            if not is_known or not isinstance(age, Real) or not 0 <= age < float("inf"):
                raise RuntimeInputError(f"ages must have 0 or more seconds for inputs, got {age!r} for {name!r}.")
            self.mark([name], now - _NANOSECONDS * float(age))

    def before(self, now: int) -> Violation | None:
        """Return what is wrong at the start of a tick, or None."""
        last, self._last = self._last, now
        if self._watches_stale and (found := self._stale(now)) is not None:
            return found
        if not self._watches_rate or self._grid.missed_with(now) <= self._guards.patience:
            return None
        interval = now - last if last is not None else 0
        return Violation(
            Guard.RATE,
            f"{interval / 1e6:.2f} ms after the previous tick, expected {self.period / 1e6:.2f} ms at {self.hz:g} Hz "
            f"(periods missed: {self._grid.missed}). Tick at that rate, or allow more with Guards(rate_tolerance=…, "
            "patience=…).",
        )

    def after(self, duration: int) -> Violation | None:
        """Return what is wrong after a step was computed, or None."""
        if duration <= self.period:
            self._overran = 0
            return None
        self._overran += 1
        patience = self._guards.patience
        is_too_much = self._overran > patience or duration > (patience + 1) * self.period
        if not is_too_much or not self._guards.watches(Guard.OVERRUN):
            return None
        return Violation(
            Guard.OVERRUN,
            f"the step took {duration / 1e6:.2f} ms, but the period at {self.hz:g} Hz is {self.period / 1e6:.2f} ms "
            f"({self._overran} in a row). Reduce the load, or allow more with Guards(patience=…).",
        )

    def _stale(self, now: int) -> Violation | None:
        together = self._all_refreshed
        if together is not None and not self._refreshed and now - together <= self._shortest:
            return None
        for name, allowed in self._max_age.items():
            refreshed = self._refreshed.get(name, together)
            if refreshed is None or now - refreshed > allowed:
                age = "never" if refreshed is None else f"{(now - refreshed) / 1e6:.2f} ms ago"
                return Violation(
                    Guard.STALE,
                    f"the input {name!r} is stale (last refresh: {age}, maximum age: {allowed / 1e6:.2f} ms). Pass it "
                    "to step(), or call refreshed() after writing to its buffer. Allow more with max_age=.",
                    name,
                )
        return None
