"""Converts user values to arrays of the right dtype and shape, or raises a clear error."""

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

import numpy as np

from exploy.contract import Contract
from exploy.errors import RuntimeInputError


class InputWriter:
    """Copies the values of a dictionary into the buffers of inputs.

    Args:
        buffers: The buffers, by name.
        ignored: Names that may be given but are not used.
        strict: Reject missing and unknown names, and dtypes other than those of the buffers.
    """

    def __init__(self, buffers: Mapping[str, np.ndarray], ignored: tuple[str, ...], strict: bool):
        self._buffers = buffers
        self._ignored = ignored
        self._strict = strict
        self._slots = [(name, array, array.dtype, array.shape, _unbatched(array)) for name, array in buffers.items()]

    def take(self, values: Mapping[str, Any], optional: Collection[str]) -> None:
        """Copy values into the buffers.

        Args:
            values: A value for each buffer, by name.
            optional: Names that may be omitted; their buffers are not changed.

        Raises:
            RuntimeInputError: If a name is missing or unknown, or a value has the wrong shape or dtype.
        """
        if type(values) is not dict or len(values) != len(self._slots):
            self._write_some(values, optional)
            return
        try:
            for name, buffer, dtype, shape, unbatched in self._slots:
                value = values[name]
                if type(value) is np.ndarray and value.dtype is dtype and value.shape in (shape, unbatched):
                    buffer[...] = value
                else:
                    buffer[...] = converted(name, value, buffer, strict=self._strict)
        except KeyError:
            self._write_some(values, optional)

    def _write_some(self, values: Mapping[str, Any], optional: Collection[str]) -> None:
        if not isinstance(values, Mapping):
            raise RuntimeInputError(f"Inputs must be a dictionary of arrays by name, got {type(values).__name__}.")
        missing = [name for name in self._buffers if name not in values and name not in optional]
        unknown = [str(name) for name in values if name not in self._buffers and name not in self._ignored]
        if self._strict and (missing or unknown):
            raise RuntimeInputError(
                f"Expected the inputs {', '.join(self._buffers) or 'none'}."
                + (f" Missing: {', '.join(missing)}." if missing else "")
                + (f" Unknown: {', '.join(unknown)}." if unknown else "")
            )
        for name, buffer in self._buffers.items():
            if name in values:
                buffer[...] = converted(name, values[name], buffer, strict=self._strict)


def converted(name: str, value: Any, like: np.ndarray, *, strict: bool = True) -> np.ndarray:
    """Convert a value to an array with the dtype and shape of `like`; a first dimension of 1 may be missing.

    Numbers, lists and tensors are converted. Arrays must have the right dtype, unless `strict` is False.

    Raises:
        RuntimeInputError: If the value cannot be converted.
    """
    wanted = f"{like.dtype} {list(like.shape)}"
    try:
        given = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        has_type = isinstance(given, np.ndarray | np.generic)
        array = np.asarray(given) if has_type and strict else _as_type(given, like.dtype)
    except Exception as error:  # the conversion of a value can raise anything
        raise RuntimeInputError(f"{name!r} must be {wanted}, got {type(value).__name__}: {error}.") from None
    if array.dtype != like.dtype:
        raise RuntimeInputError(
            f"{name!r} must be {wanted}, got {array.dtype} {list(array.shape)}. Convert it: .astype(np.{like.dtype})"
        )
    if array.shape not in (like.shape, _unbatched(like)):
        raise RuntimeInputError(f"{name!r} must be {wanted}, got {array.dtype} {list(array.shape)}.")
    return array.reshape(like.shape)


def _as_type(value: Any, dtype: np.dtype) -> np.ndarray:
    """Convert numbers to a dtype; raise TypeError for fractions to integers, or numbers to booleans."""
    found = np.asarray(value)
    if found.size and not np.can_cast(found.dtype, dtype, "same_kind"):
        whole = found.dtype.kind in "iu" and dtype.kind in "iuf"
        if not whole or not np.array_equal(found.astype(dtype), found):
            raise TypeError(f"{found.dtype} cannot be converted to {dtype} without loss")
    with np.errstate(over="ignore", invalid="ignore"):  # becomes infinite, which the guard `finite` reports
        return found.astype(dtype)


def _unbatched(array: np.ndarray) -> tuple[int, ...]:
    return array.shape[1:] if array.shape[:1] == (1,) else array.shape


def validated_ages(max_age: Mapping[str, float], contract: Contract) -> dict[str, float]:
    """Return the seconds after which inputs are stale.

    Raises:
        RuntimeInputError: If a value is not a positive number, or an input does not exist.
    """
    inputs = {*(port.name for port in contract.inputs), *contract.unused_inputs}
    if not isinstance(max_age, Mapping):
        raise RuntimeInputError(f"max_age must be a dictionary of seconds by input, got {max_age!r}.")
    for name, age in max_age.items():
        if name not in inputs or isinstance(age, bool) or not isinstance(age, Real) or not age > 0:
            raise RuntimeInputError(
                f"max_age must have positive seconds for inputs of the file, got {age!r} for {name!r}."
            )
    return dict(max_age)


def validated_sizes(sizes: Mapping[str, int], contract: Contract) -> dict[str, int]:
    """Return the values for the named sizes of the file.

    Raises:
        RuntimeInputError: If a value is not a positive integer, or the file has no size with that name.
    """
    if not isinstance(sizes, Mapping):
        raise RuntimeInputError(f"sizes must be a dictionary of sizes by name, got {sizes!r}.")
    known = {size for port in (*contract.inputs, *contract.outputs) for size in port.shape if isinstance(size, str)}
    for name, size in sizes.items():
        if name not in known or type(size) is not int or size < 1:
            raise RuntimeInputError(
                "sizes must have positive integers for the named sizes of the file "
                f"({', '.join(sorted(known)) or 'none'}), got {size!r} for {name!r}."
            )
    return dict(sizes)
