"""Arrays as JSON can hold them, bit by bit."""

import base64
import hashlib
from typing import Annotated, TypedDict

import numpy as np

from exploy.contract.field_schema import Constraint, Size, keywords


class EncodedArray(TypedDict):
    """An array, bit by bit.

    Args:
        dtype: Type of the elements, as numpy calls it.
        shape: Its sizes.
        data: The elements in row-major order, little-endian, in base64.
    """

    dtype: str
    shape: list[Size]
    data: Annotated[str, keywords(contentEncoding="base64")]


def encode_array(array: np.ndarray) -> EncodedArray:
    """An array as JSON can hold it, at full precision."""
    little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = base64.b64encode(little_endian.tobytes()).decode("ascii")
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def decode_array(document: EncodedArray) -> np.ndarray:
    """The array that encode_array() was given.

    Raises:
        ValueError, KeyError, TypeError, OverflowError: If the document is none that encode_array() makes.
    """
    dtype = np.dtype(document["dtype"])
    if dtype.hasobject:
        raise ValueError(f"{document['dtype']!r} is no type of numbers")
    flat = np.frombuffer(base64.b64decode(document["data"], validate=True), dtype=dtype.newbyteorder("<"))
    return flat.reshape(document["shape"]).astype(dtype)


def digest(array: np.ndarray) -> str:
    """A hash of an array's elements."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _decodable(document: EncodedArray) -> EncodedArray:
    decode_array(document)
    return document


def _number_type(name: str) -> str:
    dtype = np.dtype(name)
    if dtype.kind not in "fiubc":
        raise ValueError(f"{name!r} is no type of numbers")
    return str(dtype)


StoredArray = Annotated[EncodedArray, Constraint({}, _decodable)]
NumberType = Annotated[str, Constraint({}, _number_type)]
