"""Checks what a port says under `on_stop`: what the robot is left with when the loop stops."""

import math
from typing import Any, Literal

import numpy as np

from exploy.contract.bounds import LIMITED_KINDS, bounds
from exploy.contract.field_schema import shown

HOLD: Literal["hold"] = "hold"
ZERO: Literal["zero"] = "zero"
ON_STOP_WORDS = (HOLD, ZERO)

OnStopValue = str | float | tuple[float, ...]


def validated_on_stop(value: Any, dtype: np.dtype, shape: tuple[int | str, ...], limits: Any) -> OnStopValue:
    """Return what an output does on a stop: "hold", "zero", a number, or one number per element.

    Args:
        value: The word, number, list or array.
        dtype: The dtype of the output.
        shape: The shape of the output. Elements are counted along its last dimension.
        limits: The limits of the output.

    Raises:
        ValueError: If it is none of these, or the values do not fit the dtype, the number of elements or the limits.
    """
    if isinstance(value, str):
        if value not in ON_STOP_WORDS:
            raise ValueError(f"{_expected(shape)}, got {shown(value)}")
        if value == ZERO:
            _require_in_range(np.zeros(1), dtype, limits, value)
        return value
    numbers = _numbers(value, dtype)
    elements = shape[-1] if shape else None
    if numbers is None or (isinstance(numbers, tuple) and len(numbers) != elements):
        raise ValueError(f"{_expected(shape)}, got {shown(value)}")
    _require_in_range(np.array(numbers, dtype=np.float64), dtype, limits, value)
    return numbers


def stop_array(value: OnStopValue, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return validated stop values as an array; None for "hold"."""
    if value == HOLD:
        return None
    return np.array(np.broadcast_to(np.array(0.0 if value == ZERO else value).astype(dtype), shape))


def _expected(shape: tuple[int | str, ...]) -> str:
    several = f", or {shape[-1]} numbers, one for each element along the last dimension" if shape else ""
    return f'on_stop must be "hold", "zero", a number{several}'


def _numbers(value: Any, dtype: np.dtype) -> float | tuple[float, ...] | None:
    """Return one number, or a tuple of numbers; None for anything else. A first dimension of 1 is dropped."""
    if isinstance(value, np.ma.MaskedArray):
        return None
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], list | tuple):
        value = value[0]
    items = [item.item() if isinstance(item, np.generic) else item for item in _listed(value)]
    allowed = (bool, int, float) if dtype.kind == "b" else (int, float)
    if not all(isinstance(item, allowed) and (dtype.kind == "b" or not isinstance(item, bool)) for item in items):
        return None
    try:
        numbers = tuple(float(item) for item in items)
    except OverflowError:
        return None
    if dtype.kind in "iu" and any(number != item for number, item in zip(numbers, items, strict=True)):
        return None  # a contract stores floats
    return numbers if isinstance(value, list | tuple) else numbers[0]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _require_in_range(numbers: np.ndarray, dtype: np.dtype, limits: Any, given: Any) -> None:
    """Raise ValueError if a number is not finite, is not a value of the dtype, or is outside of the limits."""
    if not all(math.isfinite(number) for number in numbers.reshape(-1)):
        raise ValueError(f"on_stop must be finite, got {shown(given)}")
    with np.errstate(over="ignore", invalid="ignore"):
        stored = numbers.astype(dtype)
    whole = dtype.kind not in "iub" or np.array_equal(stored.astype(np.float64), numbers)
    if not whole or not np.isfinite(stored).all():
        raise ValueError(f"on_stop must be values of {dtype}, got {shown(given)}")
    if limits is None or dtype.kind not in LIMITED_KINDS:
        return
    low, high = bounds(limits, dtype)
    if ((stored < low) | (stored > high)).any():
        raise ValueError(f"on_stop must be within the limits {limits}, got {shown(given)}")
