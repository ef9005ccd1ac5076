"""How far rounding alone can move the outputs of a file: measured by disturbing what goes into it.

Two programs that compute the same in another order differ by rounding. How much that is depends on the program: a
gain of 200 turns one unit in the last place of a joint position into 1e-5 Nm, and memories carry errors on. So the file
is run again on the same inputs, with every float that goes in moved by one unit in the last place at every tick. The
change that this makes is the *spread*. An error of a small multiple of the spread is rounding. A wrong gain, a frozen
value or a swapped joint is orders of magnitude beyond it.
"""

from dataclasses import dataclass, field

import numpy as np

from exploy.contract import Contract
from exploy.verify.stepped import Stepped, Values

MULTIPLE = 10.0
LARGEST_SHARE = 1e-4  # of an element's largest value so far; an error beyond that is not put down to rounding
_RUNS = 4
_MAX_BYTES = 1 << 26


@dataclass(frozen=True)
class _Tick:
    step_count: int
    inputs: Values
    memories: Values | None  # what the memories were set to before this tick; None where they were fed back


@dataclass
class _DisturbedRun:
    """One run of the file with disturbed inputs, with memories of its own."""

    generator: np.random.Generator
    memories: Values = field(default_factory=dict)

    def step(self, stepped: Stepped, contract: Contract, tick: _Tick) -> Values:
        if tick.memories is not None:
            self.memories = dict(tick.memories)
        values = tick.inputs | self.memories
        results = stepped.run(tick.step_count, {name: self._disturbed(value) for name, value in values.items()})
        self.memories = {memory.input: results[memory.output] for memory in contract.memories}
        return results

    def _disturbed(self, value: np.ndarray) -> np.ndarray:
        """Each float one unit in the last place up or down; everything else, and zero, as it is."""
        if value.dtype.kind != "f":
            return value
        towards = self.generator.choice(np.array([-np.inf, np.inf], value.dtype), value.shape)
        moved = np.nextafter(value, towards)
        result: np.ndarray = np.where(np.isfinite(value) & (value != 0), moved, value)
        return result


class RoundingSpread:
    """How far disturbed runs of a file are from the undisturbed one, for every element of its outputs, so far.

    Ticks are kept and only run again when somebody asks, or when they take too much memory.

    Args:
        stepped: The file.
        contract: Its contract.
    """

    def __init__(self, stepped: Stepped, contract: Contract):
        self._stepped = stepped
        self._contract = contract
        self._pending: list[tuple[_Tick, Values]] = []
        self._bytes = 0
        self._runs = [_DisturbedRun(np.random.default_rng(seed)) for seed in range(_RUNS)]
        self._spread: list[dict[str, np.ndarray]] = [{} for _ in self._runs]
        self._largest: dict[str, np.ndarray] = {}
        self._works = True

    def record(self, step_count: int, inputs: Values, memories: Values | None, results: Values) -> None:
        """Keep a tick that the file has computed.

        Args:
            step_count: The number of the tick in its policy step.
            inputs: What went in, but for memories.
            memories: What the memories were set to, if they were not fed back.
            results: What came out.
        """
        self._pending.append((_Tick(step_count, inputs, memories), results))
        self._bytes += sum(value.nbytes for value in (*inputs.values(), *results.values()))
        if self._bytes > _MAX_BYTES:
            self._catch_up()

    def allowed(self, name: str) -> np.ndarray | float:
        """How far the elements of an output may be off by rounding, at the last tick that was recorded."""
        self._catch_up()
        spreads = [spread[name] for spread in self._spread if name in spread]
        if not self._works or not spreads:
            return 0.0
        typical = np.median(spreads, axis=0)
        result: np.ndarray = np.minimum(MULTIPLE * typical, LARGEST_SHARE * self._largest[name])
        return result

    def _catch_up(self) -> None:
        pending, self._pending, self._bytes = self._pending, [], 0
        for tick, results in pending if self._works else []:
            for name, value in results.items():
                if value.dtype.kind == "f":
                    self._raise(self._largest, name, np.abs(value))
            for run, spread in zip(self._runs, self._spread, strict=True):
                try:
                    disturbed = run.step(self._stepped, self._contract, tick)
                except Exception:  # at some disturbed value, an index is not valid, say
                    self._works = False
                    return
                for name, value in results.items():
                    if value.dtype.kind == "f":
                        self._raise(spread, name, np.abs(disturbed[name].astype(np.float64) - value))

    def _raise(self, kept: dict[str, np.ndarray], name: str, value: np.ndarray) -> None:
        """Keep the largest values so far; what is not finite does not count."""
        finite = np.where(np.isfinite(value), value, 0.0).astype(np.float64)
        kept[name] = np.maximum(kept[name], finite) if name in kept else finite
