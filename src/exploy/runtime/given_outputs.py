"""Checks outputs that a user gives instead of computed ones: `safe=` and what `on_fault` returns."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from exploy.contract import Port
from exploy.contract.bounds import LIMITED_KINDS, bounds
from exploy.errors import RuntimeInputError
from exploy.runtime.input_writer import converted


def validated_outputs(
    who: str, given: Any, like: Mapping[str, np.ndarray], ports: Mapping[str, Port], *, check_limits: bool = True
) -> dict[str, np.ndarray]:
    """Return outputs as new arrays with the dtypes and shapes of the file.

    Args:
        who: What gave the outputs, for messages: "safe" or "on_fault".
        given: The outputs by name; not necessarily all of them.
        like: Arrays with the dtype and shape of each output.
        ports: The ports of the outputs, in the order set by the user.
        check_limits: Refuse values outside of the limits.

    Raises:
        RuntimeInputError: If a name is unknown, or a value has the wrong shape or dtype, is not finite or is outside of
            its limits.
    """
    if not isinstance(given, Mapping):
        raise RuntimeInputError(f"{who}: expected a dictionary of outputs, got {given!r}.")
    unknown = [str(name) for name in given if name not in like]
    if unknown:
        raise RuntimeInputError(f"{who}: unknown outputs {', '.join(unknown)}. The outputs are {', '.join(like)}.")
    try:
        values = {name: converted(name, value, like[name]) for name, value in given.items()}
    except RuntimeInputError as error:
        raise RuntimeInputError(f"{who}: {error}") from None
    for name, value in values.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise RuntimeInputError(f"{who}: {name!r} must be finite, got {value.tolist()}.")
        if check_limits:
            _require_within_limits(who, ports[name], value)
    return values


def _require_within_limits(who: str, port: Port, value: np.ndarray) -> None:
    if port.limits is None or value.dtype.kind not in LIMITED_KINDS:
        return
    low, high = bounds(port.limits, value.dtype)
    if ((value < low) | (value > high)).any():
        raise RuntimeInputError(f"{who}: {port.name!r} must be within its limits {port.limits}, got {value.tolist()}.")
