"""What a report tells, as data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from exploy.comparison import absolute_error
from exploy.runtime.model_file import ModelFile

if TYPE_CHECKING:
    from exploy.diagnosis.diagnosis import Diagnosis


@dataclass(frozen=True)
class Worst:
    """Where an output was furthest off."""

    tick: int
    element: str
    expected: float
    got: float


@dataclass(frozen=True)
class OutputHistory:
    """An output of the file beside what was expected of it.

    Args:
        name: Name of the port.
        elements: Names of its elements.
        ticks: The ticks at which it was compared.
        expected: What was expected, a row for each tick, flattened.
        got: What the file gave.
        errors: The largest absolute difference at each tick.
        agrees: Whether all of them are within the tolerance.
        worst: Where it was furthest off; None if it never was.
    """

    name: str
    elements: tuple[str, ...]
    ticks: np.ndarray
    expected: np.ndarray
    got: np.ndarray
    errors: np.ndarray
    agrees: bool
    worst: Worst | None


@dataclass(frozen=True)
class InputHistory:
    """An input over the ticks: a row for each, flattened."""

    name: str
    elements: tuple[str, ...]
    ticks: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Content:
    """Everything that a report shows.

    Args:
        path: The file.
        file: What it says about itself.
        reference: What it was compared with, in words.
        steps: How many policy steps were compared.
        tolerance: How far outputs may be off.
        inputs: What went in.
        outputs: What came out.
        not_compared: Outputs that were not compared, and why.
        policy_latency: Microseconds of policy steps on the machine of the report.
        sub_step_latency: Microseconds of sub-steps.
        diagnosis: What a check of the environment has found, where there was one.
    """

    path: Path
    file: ModelFile
    reference: str
    steps: int
    tolerance: float
    inputs: list[InputHistory]
    outputs: list[OutputHistory]
    not_compared: dict[str, str] = field(default_factory=dict)
    policy_latency: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sub_step_latency: np.ndarray = field(default_factory=lambda: np.zeros(0))
    diagnosis: "Diagnosis | None" = None

    @property
    def ok(self) -> bool:
        """Whether something was compared, all of it agrees, and nothing was found to stand against it."""
        has_findings = self.diagnosis is not None and not self.diagnosis.ok
        return bool(self.outputs) and all(output.agrees for output in self.outputs) and not has_findings

    @property
    def verdict(self) -> str:
        """The result in one line."""
        if not self.outputs:
            return "Nothing could be compared, so nothing is proven."
        differing = [output.name for output in self.outputs if not output.agrees]
        if differing:
            return f"The file does not agree with {self.reference}: {', '.join(differing)}."
        if not self.ok:
            return f"The file agrees with {self.reference} so far, but the check of the environment found faults."
        return f"The file agrees with {self.reference}."


def output_history(
    name: str,
    elements: tuple[str, ...],
    compared: list[tuple[int, np.ndarray, np.ndarray]],
    errors: list[float],
    agrees: bool,
) -> OutputHistory:
    """Put together what was seen of an output: ticks with the expected and the given value."""
    ticks = np.array([tick for tick, _, _ in compared], dtype=np.int64)
    expected, got = (
        np.stack([np.asarray(item[side], dtype=np.float64).reshape(-1) for item in compared]) for side in (1, 2)
    )
    sizes = np.array(errors, dtype=np.float64)
    return OutputHistory(
        name, elements, ticks, expected, got, sizes, agrees, _worst(elements, ticks, expected, got, sizes)
    )


def _worst(
    elements: tuple[str, ...], ticks: np.ndarray, expected: np.ndarray, got: np.ndarray, errors: np.ndarray
) -> Worst | None:
    if not errors.size or not errors.max() > 0:
        return None
    row = int(errors.argmax())
    column = int(absolute_error(expected[row], got[row]).argmax())
    return Worst(int(ticks[row]), elements[column], float(expected[row, column]), float(got[row, column]))
