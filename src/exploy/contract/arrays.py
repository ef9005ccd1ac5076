"""Encodes arrays for JSON without loss."""

import base64
import hashlib
import re
from typing import Annotated, TypedDict

import numpy as np

from exploy.contract.field_schema import Constraint, Size, at_most, keywords, shown
from exploy.contract.limits import MAX_DIMENSIONS

_PLAIN_NAME = re.compile(r"[<=]?[a-z]{1,16}[0-9]{0,4}_?")


class EncodedArray(TypedDict):
    """An array, encoded without loss.

    Args:
        dtype: Numpy dtype of the elements.
        shape: Its shape.
        data: The elements in row-major order, little-endian, in base64.
    """

    dtype: str
    shape: Annotated[list[Size], at_most(MAX_DIMENSIONS)]
    data: Annotated[str, keywords(contentEncoding="base64")]


def encode_array(array: np.ndarray) -> EncodedArray:
    """Encode an array for JSON at full precision."""
    little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = base64.b64encode(little_endian.tobytes()).decode("ascii")
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def decode_array(document: EncodedArray) -> np.ndarray:
    """Decode an array that encode_array() has encoded.

    Raises:
        ValueError, KeyError, TypeError, OverflowError: If the document is not a valid encoded array.
    """
    dtype = np.dtype(_number_type(document["dtype"]))
    flat = np.frombuffer(base64.b64decode(document["data"], validate=True), dtype=dtype.newbyteorder("<"))
    return flat.reshape(document["shape"]).astype(dtype)


def digest(array: np.ndarray) -> str:
    """Return the SHA-256 hash of an array's elements."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _decodable(document: EncodedArray) -> EncodedArray:
    decode_array(document)
    return document


def _number_type(name: str) -> str:
    """Return the name of a dtype as numpy spells it. Only plain names reach numpy, which understands much more."""
    dtype = np.dtype(name) if _PLAIN_NAME.fullmatch(name) else None
    if dtype is None or dtype.kind not in "fiubc":
        raise ValueError(f"{shown(name)} is not a numeric dtype")
    return str(dtype)


StoredArray = Annotated[EncodedArray, Constraint({}, _decodable)]
NumberType = Annotated[str, Constraint({}, _number_type)]
