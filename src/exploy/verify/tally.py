"""Counts comparisons and prints them as a table."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from exploy.comparison import Difference, absolute_error, difference


@dataclass(frozen=True)
class Mismatch:
    """The first difference of an output."""

    step: int
    sub_step: int
    difference: Difference
    element_name: str | None = None

    def __str__(self) -> str:
        name = f" ({self.element_name})" if self.element_name else ""
        return f"step {self.step}, sub-step {self.sub_step}{name}: {self.difference}"


@dataclass
class OutputTally:
    """The comparisons of one output."""

    compared: int = 0
    mismatches: int = 0
    worst_error: float = 0.0
    first: Mismatch | None = None


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
    """All comparisons of an evaluation; `on_comparison` is called with each one before it is evaluated."""

    atol: float
    rtol: float
    on_comparison: Callable[[Comparison], None] = lambda comparison: None
    element_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    outputs: dict[str, OutputTally] = field(default_factory=dict)
    not_compared: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing differed."""
        compared = sum(output.compared for output in self.outputs.values())
        return compared > 0 and not any(output.mismatches for output in self.outputs.values())

    @property
    def mismatches(self) -> int:
        """Number of comparisons that failed."""
        return sum(output.mismatches for output in self.outputs.values())

    def compare(self, name: str, expected: np.ndarray, got: np.ndarray, step: int, sub_step: int) -> None:
        """Compare one value with that of the environment and store the result."""
        self.on_comparison(Comparison(name, expected, got, step, sub_step))
        output = self.outputs.setdefault(name, OutputTally())
        output.compared += 1
        output.worst_error = max(output.worst_error, float(absolute_error(expected, got).max(initial=0.0)))
        found = difference(expected, got, self.atol, self.rtol)
        if found is not None:
            output.mismatches += 1
            output.first = output.first or Mismatch(step, sub_step, found, self._element_name(name, found))

    def _element_name(self, output: str, found: Difference) -> str | None:
        names = self.element_names.get(output, ())
        position = found.index[-1] if found.index else 0
        return names[position] if position < len(names) else None

    def print(self, console: Console, steps: int) -> None:
        """Print the verdict and a table of all outputs."""
        if self.ok:
            console.print(f"The file agrees with the environment over {steps} steps.")
        elif self.mismatches:
            console.print(f"The file does NOT agree with the environment ({steps} steps).")
        else:
            console.print("No output could be compared, so the file is not verified.")
        console.print(self._table())

    def _table(self) -> Table:
        table = Table("output", "compared", "worst error", "result")
        for name, output in self.outputs.items():
            result = f"differs, first at {output.first}" if output.first else "agrees"
            table.add_row(escape(name), str(output.compared), f"{output.worst_error:.3g}", escape(result))
        for name, reason in self.not_compared.items():
            if name not in self.outputs:
                table.add_row(escape(name), "0", "-", f"not compared: {reason}")
        return table
