"""The types of C that stand for the types of tensors, and how their numbers are written."""

import math
from dataclasses import dataclass

import numpy as np

from exploy.errors import LoweringError


@dataclass(frozen=True)
class CType:
    """A type of elements.

    Args:
        name: In C, such as `float`.
        suffix: In names of kernels, such as `f32`.
    """

    name: str
    suffix: str


_TYPES = {
    "float32": CType("float", "f32"),
    "float64": CType("double", "f64"),
    "bool": CType("bool", "flag"),
    **{f"int{bits}": CType(f"int{bits}_t", f"i{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": CType(f"uint{bits}_t", f"u{bits}") for bits in (8, 16, 32, 64)},
}
SUFFIXES = {item.suffix: name for name, item in _TYPES.items()}  # of kernels, with the type of tensors


def c_type(dtype: np.dtype) -> CType:
    """The type of elements of a tensor.

    Raises:
        LoweringError: If C has none, as for float16 and strings.
    """
    found = _TYPES.get(np.dtype(dtype).name)
    if found is None:
        raise LoweringError(f"C code cannot be written for values of type {dtype}. Use {', '.join(_TYPES)}.")
    return found


def literal(value: np.generic | float | int | bool, dtype: np.dtype) -> str:
    """A number, written so that it has the same bits when it is read."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    return _real(float(value), dtype) if dtype.kind == "f" else _integer(int(value), dtype)


def _real(value: float, dtype: np.dtype) -> str:
    if math.isnan(value):
        return "NAN" if dtype.itemsize == 4 else "(double)NAN"
    if math.isinf(value):
        name = "INFINITY" if dtype.itemsize == 4 else "(double)INFINITY"
        return name if value > 0 else f"(-{name})"
    text = np.format_float_scientific(dtype.type(value), unique=True, trim="0")
    if 1e-4 <= abs(value) < 1e6 or value == 0:
        text = np.format_float_positional(dtype.type(value), unique=True, trim="0")
    text += "f" if dtype.itemsize == 4 else ""
    return f"({text})" if text.startswith("-") else text


def _integer(value: int, dtype: np.dtype) -> str:
    kind = c_type(dtype).name
    bits = 8 * dtype.itemsize
    if dtype.kind == "u":
        return f"{value}u" if bits < 64 else f"UINT64_C({value})"
    if value == -(2 ** (bits - 1)):
        return f"{kind.removesuffix('_t').upper()}_MIN"
    if bits == 64:
        return f"INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"
    return str(value) if value >= 0 else f"({value})"
