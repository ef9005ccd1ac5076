"""What a file says about itself: ports, rates, memories, frozen values. Torch-free, stored as one JSON document."""

import base64
import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from exploy.errors import FileFormatError

METADATA_KEY = "exploy.contract"
FORMAT_VERSION = "0.1"
STEP_COUNT = "ctx.step_count"


@dataclass(frozen=True)
class Port:
    """A named tensor that goes into or comes out of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Memory:
    """A value that the file gives out and takes again at the next call.

    `carried` ones were not registered: they cross from a policy step to its sub-steps. The value of
    one that is `written_by_observations` changes whenever observations are computed.
    """

    name: str
    input: str
    output: str
    initial: dict[str, Any]
    carried: bool
    written_by_observations: bool

    def initial_value(self) -> np.ndarray:
        """The value that this memory starts from."""
        return decode_array(self.initial)


@dataclass(frozen=True)
class Frozen:
    """A tensor of the environment that is stored in the file with the value that it had at export.

    Its name is the path that led to it. Where ports cover a part of it, `elements` are the positions of the rest in
    the flattened tensor. `declared` is the name under which the user has declared it to be a constant.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    elements: list[int] | None = None
    declared: str | None = None

    def matches(self, array: np.ndarray) -> bool:
        """Whether an array still has the value that was frozen; of another shape or type, it has not."""
        if array.shape != self.shape or str(array.dtype) != self.dtype:
            return False
        return digest(array if self.elements is None else array.reshape(-1)[self.elements]) == self.sha256


@dataclass(frozen=True)
class Contract:
    """The file's description of itself."""

    decimation: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    memories: tuple[Memory, ...]
    frozen: tuple[Frozen, ...]
    unused_inputs: tuple[str, ...]
    sub_step_inputs: dict[str, list[str]]
    observation_names: tuple[str, ...]
    random_outputs: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    format_version: str = FORMAT_VERSION

    def to_json(self) -> str:
        """The document as it is stored; it never contains NaN or Infinity."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Contract":
        """Read a document back.

        Raises:
            FileFormatError: If it is no contract of this version.
        """
        try:
            return _read(json.loads(text))
        except FileFormatError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FileFormatError(
                f"The metadata {METADATA_KEY!r} is no contract that this version of exploy understands "
                f"({type(error).__name__}: {error}). Export the file again."
            ) from error


def _read(document: dict[str, Any]) -> Contract:
    version = _text(document["format_version"])
    if version.split(".")[0] != FORMAT_VERSION.split(".")[0]:
        raise FileFormatError(
            f"The file's contract has version {version}; this exploy reads {FORMAT_VERSION}. Update exploy."
        )
    return Contract(
        decimation=_positive(document["decimation"]),
        inputs=tuple(Port(*_tensor(item)) for item in document["inputs"]),
        outputs=tuple(Port(*_tensor(item)) for item in document["outputs"]),
        memories=tuple(_memory(item) for item in document["memories"]),
        frozen=tuple(_frozen(item) for item in document["frozen"]),
        unused_inputs=_texts(document["unused_inputs"]),
        sub_step_inputs={_text(name): list(_texts(inputs)) for name, inputs in document["sub_step_inputs"].items()},
        observation_names=_texts(document["observation_names"]),
        random_outputs=_texts(document.get("random_outputs", [])),
        versions={_text(name): _text(value) for name, value in document.get("versions", {}).items()},
        format_version=version,
    )


def _tensor(document: dict[str, Any]) -> tuple[str, str, tuple[int, ...]]:
    sizes = document["shape"]
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError(f"{sizes!r} is no shape")
    return _text(document["name"]), str(np.dtype(_text(document["dtype"]))), tuple(sizes)


def _frozen(document: dict[str, Any]) -> Frozen:
    elements = document.get("elements")
    count = math.prod(document["shape"])
    if elements is not None and not all(type(item) is int and 0 <= item < count for item in elements):
        raise ValueError("the positions of frozen elements are out of range")
    declared = document.get("declared")
    return Frozen(
        *_tensor(document),
        sha256=_text(document["sha256"]),
        elements=elements,
        declared=None if declared is None else _text(declared),
    )


def _memory(document: dict[str, Any]) -> Memory:
    decode_array(document["initial"])
    flags = (document["carried"], document["written_by_observations"])
    if not all(isinstance(flag, bool) for flag in flags):
        raise ValueError(f"{flags!r} are no flags")
    names = (_text(document["name"]), _text(document["input"]), _text(document["output"]))
    return Memory(*names, document["initial"], *flags)


def _positive(number: Any) -> int:
    if type(number) is not int or number < 1:
        raise ValueError(f"{number!r} is no positive whole number")
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no string")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return tuple(_text(value) for value in values)


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """An array as JSON can hold it, at full precision."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def decode_array(document: dict[str, Any]) -> np.ndarray:
    """The array that encode_array() was given."""
    flat = np.frombuffer(base64.b64decode(document["data"]), dtype=np.dtype(document["dtype"]))
    return flat.reshape(document["shape"]).copy()


def digest(array: np.ndarray) -> str:
    """A hash of an array's elements."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
