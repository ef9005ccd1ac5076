"""The content of a report, as data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from exploy.comparison import absolute_error
from exploy.runtime.model_file import ModelFile
from exploy.verify.verdict import Verdict

if TYPE_CHECKING:
    from exploy.diagnosis.diagnosis import Diagnosis


@dataclass(frozen=True)
class Worst:
    """The location of the largest error of an output."""

    tick: int
    element: str
    expected: float
    got: float


@dataclass(frozen=True)
class OutputHistory:
    """An output of the file, compared against its expected values.

    Args:
        name: Name of the port.
        elements: Names of its elements.
        ticks: The ticks at which it was compared.
        expected: The expected values, one flattened row for each tick.
        got: The values from the file, in the same form.
        errors: The largest absolute difference at each tick.
        agrees: Whether all differences are within the tolerance, or are explained by rounding.
        worst: The location of the largest error; None if there was no error.
        rounding: The largest error beyond the tolerance that rounding explains, as a multiple of its measured spread.
    """

    name: str
    elements: tuple[str, ...]
    ticks: np.ndarray
    expected: np.ndarray
    got: np.ndarray
    errors: np.ndarray
    agrees: bool
    worst: Worst | None
    rounding: float = 0.0


@dataclass(frozen=True)
class InputHistory:
    """The values of an input, one flattened row for each tick."""

    name: str
    elements: tuple[str, ...]
    ticks: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Content:
    """Everything that a report shows.

    Args:
        path: The file.
        file: The loaded file with its contract.
        reference: What the file was compared against, as text.
        steps: Number of compared policy steps.
        tolerance: Tolerance of the comparison.
        inputs: Values of the inputs.
        outputs: Values of the outputs.
        not_compared: Outputs that were not compared, with the reason.
        missing: What had to be compared and was not, or not everywhere, and why.
        mismatches: Where each output that differs was first found to differ.
        policy_latency: Duration of each policy step on this machine, in microseconds.
        sub_step_latency: Duration of each sub-step, in microseconds.
        diagnosis: Result of the check of the environment, if there was a check.
    """

    path: Path
    file: ModelFile
    reference: str
    steps: int
    tolerance: float
    inputs: list[InputHistory]
    outputs: list[OutputHistory]
    not_compared: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    mismatches: dict[str, str] = field(default_factory=dict)
    policy_latency: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sub_step_latency: np.ndarray = field(default_factory=lambda: np.zeros(0))
    diagnosis: "Diagnosis | None" = None

    @property
    def result(self) -> Verdict:
        """Whether the file agrees with the reference; the check of the environment does not count."""
        if self.differing:
            return Verdict.DIFFERS
        return Verdict.INCOMPLETE if self.missing or not self.outputs else Verdict.AGREES

    @property
    def differing(self) -> list[str]:
        """Names of the outputs that differ."""
        return list(dict.fromkeys([*(item.name for item in self.outputs if not item.agrees), *self.mismatches]))

    @property
    def ok(self) -> bool:
        """Whether the file agrees with the reference, and the check of the environment is ok."""
        return self.result is Verdict.AGREES and (self.diagnosis is None or self.diagnosis.ok)

    @property
    def compared(self) -> int:
        """Number of comparisons."""
        return sum(len(output.ticks) for output in self.outputs)

    @property
    def verdict(self) -> str:
        """The result in one line."""
        count = f"{self.compared} comparisons"
        if self.result is Verdict.DIFFERS:
            return f"differs: the file does not agree with {self.reference}: {', '.join(self.differing)} ({count})."
        if self.result is Verdict.INCOMPLETE:
            return f"incomplete: {', '.join(self.missing) or 'nothing'} could not be compared ({count})."
        if not self.ok:
            return f"agrees with {self.reference} ({count}), but the check of the environment found problems."
        return f"agrees: the file behaves like {self.reference} ({count})."


def output_history(
    name: str,
    elements: tuple[str, ...],
    compared: list[tuple[int, np.ndarray, np.ndarray]],
    errors: list[float],
    agrees: bool,
    rounding: float = 0.0,
) -> OutputHistory:
    """Build an OutputHistory from tuples of tick, expected value and value from the file."""
    ticks = np.array([tick for tick, _, _ in compared], dtype=np.int64)
    expected, got = (
        np.stack([np.asarray(item[side], dtype=np.float64).reshape(-1) for item in compared]) for side in (1, 2)
    )
    sizes = np.array(errors, dtype=np.float64)
    return OutputHistory(
        name, elements, ticks, expected, got, sizes, agrees, _worst(elements, ticks, expected, got, sizes), rounding
    )


def _worst(
    elements: tuple[str, ...], ticks: np.ndarray, expected: np.ndarray, got: np.ndarray, errors: np.ndarray
) -> Worst | None:
    if not errors.size or not errors.max() > 0:
        return None
    row = int(errors.argmax())
    column = int(absolute_error(expected[row], got[row]).argmax())
    return Worst(int(ticks[row]), elements[column], float(expected[row, column]), float(got[row, column]))
