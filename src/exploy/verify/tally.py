"""Counts comparisons, judges them, and prints them as a table."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table

from exploy.comparison import Difference, absolute_error, difference
from exploy.text import for_rich
from exploy.verify.rounding import MULTIPLE
from exploy.verify.verdict import Verdict

Allowed = Callable[[str], np.ndarray | float]


@dataclass(frozen=True)
class Mismatch:
    """The first difference of an output; `moment` tells when, if it was not at a sub-step."""

    step: int
    sub_step: int
    difference: Difference
    element_name: str | None = None
    moment: str | None = None

    def __str__(self) -> str:
        name = f" ({self.element_name})" if self.element_name else ""
        return f"step {self.step}, {self.moment or f'sub-step {self.sub_step}'}{name}: {self.difference}"


@dataclass
class OutputTally:
    """The comparisons of one output.

    Attributes:
        compared: How many there were.
        mismatches: How many failed.
        worst_error: The largest error; of the elements that failed, if any did.
        first: The first failure.
        rounding: The largest error beyond the tolerance that rounding explains, as a multiple of the measured spread.
        sub_steps: The sub-steps at which it was compared.
    """

    compared: int = 0
    mismatches: int = 0
    worst_error: float = 0.0
    first: Mismatch | None = None
    rounding: float = 0.0
    sub_steps: set[int] = field(default_factory=set)

    @property
    def result(self) -> str:
        """The result as text."""
        if self.first is not None:
            return f"differs, first at {self.first}"
        return f"agrees (rounding, {self.rounding:.1f} times its spread)" if self.rounding else "agrees"


@dataclass(frozen=True)
class Comparison:
    """One value of the environment (`expected`) and of the file or program (`got`)."""

    name: str
    expected: np.ndarray
    got: np.ndarray
    step: int
    sub_step: int


@dataclass
class Tally:
    """All comparisons of an evaluation.

    Attributes:
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        on_comparison: Called with each comparison before it is evaluated.
        coarse_rtol: Tolerance relative to the largest element of a value, for what coarse modules compute; None if no
            module is coarse.
        allow_uncompared: Outputs that need not be compared.
        element_names: Names of the elements of outputs.
        expected: The sub-steps at which each output must be compared.
        outputs: The comparisons of each output.
        not_compared: Why outputs could not be compared at some time.
        unseen: Why outputs could not be compared at some moment at which they had to be, although they were at others.
    """

    atol: float
    rtol: float
    on_comparison: Callable[[Comparison], None] = lambda comparison: None
    coarse_rtol: float | None = None
    allow_uncompared: Collection[str] = ()
    element_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    expected: dict[str, range] = field(default_factory=dict)
    outputs: dict[str, OutputTally] = field(default_factory=dict)
    not_compared: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Whether everything was compared and nothing differs."""
        if self.mismatches:
            return Verdict.DIFFERS
        return Verdict.INCOMPLETE if self.missing or not self.compared else Verdict.AGREES

    @property
    def ok(self) -> bool:
        """Whether everything was compared and nothing differs."""
        return self.verdict is Verdict.AGREES

    @property
    def compared(self) -> int:
        """Number of comparisons."""
        return sum(output.compared for output in self.outputs.values())

    @property
    def mismatches(self) -> int:
        """Number of comparisons that failed."""
        return sum(output.mismatches for output in self.outputs.values())

    @property
    def missing(self) -> dict[str, str]:
        """What had to be compared and was not, by output, with the reason."""
        gaps = {name: self._gap(name, needed) for name, needed in self.expected.items()}
        never = {name: gap for name, gap in gaps.items() if gap is not None}
        return {name: why for name, why in (self.unseen | never).items() if name not in self.allow_uncompared}

    def _gap(self, name: str, needed: range) -> str | None:
        seen = self.outputs[name].sub_steps if name in self.outputs else set()
        gap = [number for number in needed if number not in seen]
        if not gap:
            return None
        where = "" if not seen else f"at sub-step{'s' if len(gap) > 1 else ''} {_numbers(gap)}: "
        return f"{where}{self.not_compared.get(name, 'the run was too short')}"

    def compare(
        self,
        name: str,
        expected: np.ndarray,
        got: np.ndarray,
        step: int,
        sub_step: int,
        allowed: Allowed = lambda name: 0.0,
        moment: str | None = None,
        is_coarse: bool = True,
    ) -> None:
        """Compare one value with that of the environment and store the result.

        Args:
            name: The output.
            expected: The value of the environment.
            got: The value to compare with it.
            step: The number of the policy step.
            sub_step: The number of the sub-step.
            allowed: Gives the error that rounding explains, for each element; only asked if the tolerance is exceeded.
            moment: When it was, if not at the sub-step: such a comparison is only counted if it fails.
            is_coarse: Whether coarse modules, if there are any, can have computed it.
        """
        output = self.outputs.setdefault(name, OutputTally())
        if moment is None:
            self.on_comparison(Comparison(name, expected, got, step, sub_step))
            output.compared += 1
            output.sub_steps.add(sub_step)
        error = absolute_error(expected, got)
        by_largest = is_coarse and self.coarse_rtol is not None
        rtol = self.coarse_rtol if is_coarse and self.coarse_rtol is not None else self.rtol
        found = difference(expected, got, self.atol, rtol, by_largest=by_largest, error=error)
        if found is not None:
            explained = allowed(name)
            beyond = difference(expected, got, self.atol, rtol, by_largest=by_largest, error=error, explained=explained)
            if beyond is not None:
                output.compared += moment is not None
                self._fail(output, Mismatch(step, sub_step, beyond, self._element_name(name, beyond), moment))
                return
            share = error[found.index] / np.broadcast_to(explained, error.shape)[found.index]
            output.rounding = max(output.rounding, float(MULTIPLE * share))
        if not output.mismatches:
            output.worst_error = max(output.worst_error, float(error.max(initial=0.0)))

    def _fail(self, output: OutputTally, mismatch: Mismatch) -> None:
        worst = mismatch.difference.error
        output.worst_error = max(output.worst_error, worst) if output.mismatches else worst
        output.mismatches += 1
        output.first = output.first or mismatch

    def _element_name(self, output: str, found: Difference) -> str | None:
        names = self.element_names.get(output, ())
        position = found.index[-1] if found.index else 0
        return names[position] if position < len(names) else None

    def headline(self, steps: int) -> str:
        """The verdict and what it rests on, in one line."""
        count = f"{self.compared} comparisons over {steps} policy steps"
        if self.verdict is Verdict.DIFFERS:
            return f"differs: the file does NOT agree with the environment ({self.mismatches} of {count} failed)."
        if self.verdict is Verdict.INCOMPLETE:
            return f"incomplete: {_listed(self.missing) or 'nothing'} could not be compared ({count})."
        return f"agrees: the file behaves like the environment ({count})."

    def print(self, console: Console, steps: int) -> None:
        """Print the verdict and a table of all outputs."""
        console.print(for_rich(self.headline(steps)), highlight=False, soft_wrap=True)
        console.print(self._table())

    def _table(self) -> Table:
        table = Table("output", "compared", "worst error", "result")
        shown = {name: output for name, output in self.outputs.items() if output.compared or output.first}
        for name, output in shown.items():
            left_out = f"; not compared {self.missing[name]}" if name in self.missing else ""
            row = (name, str(output.compared), f"{output.worst_error:.3g}", f"{output.result}{left_out}")
            table.add_row(*map(for_rich, row))
        for name in {**self.expected, **self.not_compared}:
            reason = self.missing.get(name, self.not_compared.get(name))
            if name not in shown and reason is not None:
                table.add_row(for_rich(name), "0", "-", for_rich(f"not compared: {reason}"))
        return table


def _numbers(numbers: list[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _listed(names: Collection[str], most: int = 4) -> str:
    shown = list(names)[:most]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")
