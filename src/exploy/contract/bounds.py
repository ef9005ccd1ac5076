"""The limits of a port as arrays of its dtype."""

import math
from typing import Any

import numpy as np

LIMITED_KINDS = "fiu"  # numpy's kinds of dtypes that have an order


def bounds(limits: Any, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return minimum and maximum of a port in its dtype, one for all or one per element along the last dimension.

    Where there is no limit, they are the extremes of the dtype, which must be one of LIMITED_KINDS.
    """
    is_one_for_all = not any(isinstance(item, tuple) for item in limits or ())
    pairs, shape = ((limits or (None, None),), ()) if is_one_for_all else (limits, (len(limits),))
    low, high = (np.array([_bound(pair[side], dtype, side) for pair in pairs], dtype=dtype) for side in (0, 1))
    return low.reshape(shape), high.reshape(shape)


def extremes(dtype: np.dtype) -> tuple[Any, Any]:
    """Return the lowest and the highest value of a dtype."""
    if dtype.kind == "f":
        return -math.inf, math.inf
    information = np.iinfo(dtype)
    return int(information.min), int(information.max)


def _bound(value: float | None, dtype: np.dtype, side: int) -> Any:
    """Return a bound that the dtype can represent."""
    lowest_and_highest = extremes(dtype)
    if value is None:
        return lowest_and_highest[side]
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return dtype.type(value)
    return min(max((math.ceil, math.floor)[side](value), lowest_and_highest[0]), lowest_and_highest[1])
