"""Arrays as JSON can hold them, bit by bit."""

import base64
import hashlib
from typing import Any

import numpy as np


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """An array as JSON can hold it, at full precision."""
    little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = base64.b64encode(little_endian.tobytes()).decode("ascii")
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def decode_array(document: dict[str, Any]) -> np.ndarray:
    """The array that encode_array() was given.

    Raises:
        ValueError, KeyError, TypeError: If the document is none that encode_array() makes.
    """
    dtype = np.dtype(document["dtype"])
    if dtype.hasobject:
        raise ValueError(f"{document['dtype']!r} is no type of numbers")
    flat = np.frombuffer(base64.b64decode(document["data"], validate=True), dtype=dtype.newbyteorder("<"))
    return flat.reshape(document["shape"]).astype(dtype)


def digest(array: np.ndarray) -> str:
    """A hash of an array's elements."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
