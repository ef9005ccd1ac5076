"""Converts user values to arrays of the right dtype and shape, or raises a clear error."""

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

import numpy as np

from exploy.contract import Contract
from exploy.errors import RuntimeInputError


class InputWriter:
    """Copies the values of a dictionary into the buffers of inputs.

    Values that are views of these buffers are copied before anything is written, so they can be given in any order.

    Args:
        buffers: The buffers, by name.
        ignored: Names that may be given but are not used.
        strict: Reject missing and unknown names.
    """

    def __init__(self, buffers: Mapping[str, np.ndarray], ignored: tuple[str, ...], strict: bool):
        self._buffers = buffers
        self._ignored = ignored
        self._strict = strict
        self._slots = [(name, array.dtype, array.shape, _unbatched(array)) for name, array in buffers.items()]
        self._owners = {id(_owner(array)) for array in buffers.values()}

    def take(self, values: Mapping[str, Any], optional: Collection[str]) -> None:
        """Copy values into the buffers; none of them if one is refused.

        Args:
            values: A value for each buffer, by name.
            optional: Names that may be omitted; their buffers are not changed.

        Raises:
            RuntimeInputError: If a name is missing or unknown, or a value cannot be converted.
        """
        if type(values) is dict and len(values) == len(self._slots):
            for name, dtype, shape, unbatched in self._slots:
                value = values.get(name)
                if (
                    type(value) is not np.ndarray
                    or value.dtype is not dtype
                    or (value.shape != shape and value.shape != unbatched)
                    or (value.base is not None and self._may_be_mine(value.base))
                ):
                    break
            else:
                for name, buffer in self._buffers.items():
                    buffer[...] = values[name]
                return
        self._convert(values, optional)

    def _may_be_mine(self, base: Any) -> bool:
        """Return whether a view with this base may be a view of a buffer."""
        return type(base) is not np.ndarray or base.base is not None or id(base) in self._owners

    def _convert(self, values: Mapping[str, Any], optional: Collection[str]) -> None:
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
        given = [(buffer, name, values[name]) for name, buffer in self._buffers.items() if name in values]
        arrays = [(buffer, converted(name, value, buffer)) for buffer, name, value in given]
        for buffer, array in arrays:
            buffer[...] = array


def converted(name: str, value: Any, like: np.ndarray) -> np.ndarray:
    """Return a value as a new array with the dtype and shape of `like`; a first dimension of 1 may be missing.

    Numbers, lists, tensors and arrays of other dtypes are converted if nothing is lost but the precision of floats.

    Raises:
        RuntimeInputError: If the value cannot be converted: fractions to integers, numbers beyond the range of the
            dtype, numbers to booleans, masked elements, other shapes.
    """
    wanted = f"{like.dtype} {list(like.shape)}"
    try:
        given = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        array = _as_type(given, like.dtype)
    except Exception as error:  # the conversion of a value can raise anything
        raise RuntimeInputError(f"{name!r} must be {wanted}, got {type(value).__name__}: {error}.") from None
    if array.shape != like.shape and array.shape != _unbatched(like):
        raise RuntimeInputError(f"{name!r} must be {wanted}, got {array.dtype} {list(array.shape)}.")
    return array.reshape(like.shape)


def _as_type(value: Any, dtype: np.dtype) -> np.ndarray:
    """Return numbers as a new array of a dtype; raise TypeError or ValueError if something would be lost."""
    if _has_masked_elements(value):
        raise ValueError("it has masked elements")
    found = np.asarray(value)
    if found.dtype == dtype or not found.size:
        return np.array(found, dtype=dtype)
    to_whole = dtype.kind in "iu" and found.dtype.kind in "iu"
    if not to_whole and not np.can_cast(found.dtype, dtype, "same_kind"):
        raise TypeError(f"{found.dtype} cannot be converted to {dtype} without loss")
    with np.errstate(over="ignore"):
        array = found.astype(dtype)
    is_in_range = np.array_equal(array, found) if to_whole else _stays_finite(found, array)
    if not is_in_range:
        raise ValueError(f"a value is beyond the range of {dtype}")
    return array


def _stays_finite(found: np.ndarray, array: np.ndarray) -> bool:
    return array.dtype.kind not in "fc" or not (np.isinf(array) & ~np.isinf(found)).any()


def _has_masked_elements(value: Any) -> bool:
    """Return whether this is or contains a masked array with a masked element. numpy would drop the mask."""
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.is_masked(value))
    return isinstance(value, list | tuple) and any(map(_has_masked_elements, value))


def _owner(array: np.ndarray) -> Any:
    """Return the array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


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
