"""Compares two arrays and finds the largest difference."""

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
        """Absolute difference; infinite if only one of the two values is finite."""
        return float(absolute_error(np.asarray(self.expected), np.asarray(self.got)))

    def __str__(self) -> str:
        return f"element {list(self.index)} is {_shown(self.got)}, expected {_shown(self.expected)}"


def _shown(number: Any) -> str:
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def difference(
    expected: np.ndarray,
    got: np.ndarray,
    atol: float,
    rtol: float,
    *,
    by_largest: bool = False,
    error: np.ndarray | None = None,
    explained: np.ndarray | float = 0.0,
) -> Difference | None:
    """Return the worst element whose error exceeds `atol + rtol * |expected|`, or None.

    Two NaNs count as equal, and so do two equal infinities. Integers and booleans must be identical.

    Args:
        expected: The reference.
        got: The array to compare; same shape.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        by_largest: Apply `rtol` to the largest element of `expected` instead of to each element.
        error: What `absolute_error()` returns, if that is known already.
        explained: An error that is accepted as well, of floats; for each element, or for all.

    Raises:
        ValueError: If the shapes differ.
    """
    if expected.shape != got.shape:
        raise ValueError(f"Expected an array of shape {expected.shape}, got {got.shape}.")
    if expected.size == 0:
        return None
    error = absolute_error(expected, got) if error is None else error
    if expected.dtype.kind in "fc" and not error.any():
        return None
    excess = _excess(expected, got, error, atol, rtol, by_largest, explained)
    if not (excess > 0).any():
        return None
    worst = np.unravel_index(int(np.argmax(excess)), expected.shape)
    index = tuple(int(position) for position in worst)
    return Difference(index, _number(expected[index]), _number(got[index]))


def absolute_error(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Return the error of each element: 0 for equal NaNs and infinities, infinite if only one of the two is finite."""
    kind = np.complex128 if expected.dtype.kind == "c" or got.dtype.kind == "c" else np.float64
    reference, value = expected.astype(kind), got.astype(kind)
    with np.errstate(all="ignore"):
        error = np.abs(reference - value)
    same = (expected == got) | (np.isnan(reference) & np.isnan(value))
    result: np.ndarray = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    return result


def _excess(
    expected: np.ndarray,
    got: np.ndarray,
    error: np.ndarray,
    atol: float,
    rtol: float,
    by_largest: bool,
    explained: np.ndarray | float,
) -> np.ndarray:
    """Return by how much each element exceeds its tolerance; 0 or less if it does not."""
    if expected.dtype.kind not in "fc":
        return np.asarray(expected != got, dtype=np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(expected).astype(np.float64)
        size = np.where(np.isfinite(size), size, 0.0)
        allowed = np.maximum(atol + rtol * (size.max() if by_largest else size), explained)
        allowed = np.minimum(allowed, np.finfo(np.float64).max)
        excess: np.ndarray = np.where(error > allowed, error - allowed, 0.0)
        return excess


def _number(element: np.generic) -> Any:
    return element.item()
