"""How far two arrays are apart, and where."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Difference:
    """The element at which two arrays differ most."""

    index: tuple[int, ...]
    expected: Any
    got: Any

    @property
    def error(self) -> float:
        """Absolute difference; infinite where only one of the two is finite."""
        return float(absolute_error(np.asarray(self.expected), np.asarray(self.got)))

    def __str__(self) -> str:
        return f"element {list(self.index)} is {_shown(self.got)}, expected {_shown(self.expected)}"


def _shown(number: Any) -> str:
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def difference(
    expected: np.ndarray, got: np.ndarray, atol: float, rtol: float, *, by_largest: bool = False
) -> Difference | None:
    """The worst element that is further off than `atol + rtol * |expected|`, or None.

    Equal NaNs and equal infinities are equal. Integers and booleans must be the same.

    Args:
        expected: The reference.
        got: What is compared with it; of the same shape.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        by_largest: Measure `rtol` by the largest element of `expected` instead of each one's own size.
    """
    if expected.shape != got.shape:
        raise ValueError(f"Expected an array of shape {expected.shape}, got {got.shape}.")
    if expected.size == 0:
        return None
    excess = _excess(expected, got, atol, rtol, by_largest)
    if not (excess > 0).any():
        return None
    worst = np.unravel_index(int(np.argmax(excess)), expected.shape)
    index = tuple(int(position) for position in worst)
    return Difference(index, _number(expected[index]), _number(got[index]))


def absolute_error(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    """How far apart the elements are: 0 for equal NaNs and infinities, infinite where only one of two is finite."""
    kind = np.complex128 if expected.dtype.kind == "c" or got.dtype.kind == "c" else np.float64
    reference, value = expected.astype(kind), got.astype(kind)
    with np.errstate(all="ignore"):
        error = np.abs(reference - value)
    same = (expected == got) | (np.isnan(reference) & np.isnan(value))
    result: np.ndarray = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    return result


def _excess(expected: np.ndarray, got: np.ndarray, atol: float, rtol: float, by_largest: bool) -> np.ndarray:
    """By how much each element is beyond its tolerance; 0 or less where it is within."""
    if expected.dtype.kind not in "fc":
        return np.asarray(expected != got, dtype=np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(expected).astype(np.float64)
        size = np.where(np.isfinite(size), size, 0.0)
        error = absolute_error(expected, got)
        allowed = np.minimum(atol + rtol * (size.max() if by_largest else size), np.finfo(np.float64).max)
        excess: np.ndarray = np.where(error > allowed, error - allowed, 0.0)
        return excess


def _number(element: np.generic) -> Any:
    return element.item()
