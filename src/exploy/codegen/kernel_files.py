"""Finds the text of kernels: small C functions that emitted files contain as far as they use them."""

import functools
import math
import re
from collections.abc import Iterable
from importlib.resources import files

import numpy as np

from exploy.codegen.c_types import SUFFIXES, c_type, literal

_FOLDER = files("exploy.codegen") / "kernels"
_INCLUDE = re.compile(r'^#include "([a-z0-9_]+)\.h"\n', re.MULTILINE)


def kernel_text(names: Iterable[str]) -> str:
    """The text of some kernels and of those that they call, each once, the called ones first.

    Args:
        names: Kernels such as `exp_f32`: a file of that name, or one for all types, such as `any_type/maximum.h`.
    """
    parts: dict[str, str] = {}
    for name in sorted(names):
        _collect(name, parts)
    return "\n".join(parts.values())


def _collect(name: str, parts: dict[str, str]) -> None:
    if name in parts:
        return
    text = _read(name)
    for needed in _INCLUDE.findall(text):
        _collect(needed, parts)
    parts[name] = _INCLUDE.sub("", text).strip() + "\n"


@functools.cache
def _read(name: str) -> str:
    plain = _FOLDER / f"{name}.h"
    if plain.is_file():
        return plain.read_text()
    family, _, suffix = name.rpartition("_")
    words = _words_of_type(suffix)
    if family.startswith("to_"):
        words |= _words_of_conversion(suffix, family.removeprefix("to_"))
        family = "to_integer"
    text = (_FOLDER / "any_type" / f"{family}.h").read_text()
    for key, value in words.items():
        text = text.replace(f"@{key}@", value)
    return text


def _words_of_type(suffix: str) -> dict[str, str]:
    """What stands for the type in a kernel for all types. Questions whose answer a type knows are answered."""
    dtype = np.dtype(SUFFIXES[suffix])
    wide = "uint64_t" if dtype.itemsize == 8 else "uint32_t"
    return {
        "TYPE": c_type(dtype).name,
        "SUFFIX": suffix,
        "WIDE": wide,
        "IS_MINUS_ONE": "b == -1" if dtype.kind == "i" else "false",
        "IS_NAN_A": "(a != a)" if dtype.kind == "f" else "false",
        "IS_NAN_B": "(b != b)" if dtype.kind == "f" else "false",
    }


def _words_of_conversion(source: str, target: str) -> dict[str, str]:
    """The bounds within which a number without its fraction fits an integer type, which it must not reach."""
    floats, integers = np.dtype(SUFFIXES[source]), np.dtype(SUFFIXES[target])
    info = np.iinfo(integers)
    below = floats.type(info.min) - floats.type(1)
    if int(below) != int(info.min) - 1:  # the next number below the lowest one
        below = np.nextafter(floats.type(info.min), floats.type(-math.inf))
    return {
        "INTEGER": c_type(integers).name,
        "INTEGER_SUFFIX": target,
        "BELOW": literal(below, floats),
        "ABOVE": literal(floats.type(float(info.max) + 1), floats),
        "LARGEST": literal(info.max, integers),
        "LOWEST": literal(info.min, integers),
    }
