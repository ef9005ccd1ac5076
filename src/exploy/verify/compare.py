"""How far two arrays are apart, and where."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Difference:
    """The element at which two arrays differ most."""

    index: tuple[int, ...]
    expected: float
    got: float

    @property
    def error(self) -> float:
        """Absolute difference; infinite where only one of the two is finite."""
        difference = abs(self.expected - self.got)
        return float("inf") if np.isnan(difference) else difference

    def __str__(self) -> str:
        return f"element {list(self.index)} is {self.got:.9g}, expected {self.expected:.9g}"


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
    if expected.dtype.kind not in "fc":
        atol = rtol = 0.0
    reference, value = expected.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(reference - value)
    error[(reference == value) | (np.isnan(reference) & np.isnan(value))] = 0.0
    error[np.isnan(error)] = np.inf
    size = np.where(np.isfinite(reference), np.abs(reference), 0.0)
    allowed = atol + rtol * (size.max() if by_largest else size)
    if not (error > allowed).any():
        return None
    worst = np.unravel_index(int(np.argmax(error - allowed)), error.shape)
    index = tuple(int(position) for position in worst)
    return Difference(index, float(reference[index]), float(value[index]))
