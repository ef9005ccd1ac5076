"""What a file says about itself: ports, rates, memories, frozen values. Torch-free, stored as one JSON document."""

import base64
import dataclasses
import hashlib
import json
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
    """A tensor of the environment that is stored in the file with the value that it had at export."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str


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
            document = json.loads(text)
            version = document["format_version"]
            if version.split(".")[0] != FORMAT_VERSION.split(".")[0]:
                raise FileFormatError(
                    f"The file's contract has version {version}; this exploy reads {FORMAT_VERSION}. Update exploy."
                )
            known = {item.name for item in dataclasses.fields(cls)}
            values = {name: value for name, value in document.items() if name in known}
            values["inputs"] = tuple(_build(Port, item) for item in document["inputs"])
            values["outputs"] = tuple(_build(Port, item) for item in document["outputs"])
            values["memories"] = tuple(_build(Memory, item) for item in document["memories"])
            values["frozen"] = tuple(_build(Frozen, item) for item in document["frozen"])
            for name in ("unused_inputs", "observation_names"):
                values[name] = tuple(document[name])
            return cls(**values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(
                f"The metadata {METADATA_KEY!r} is no contract that this version of exploy understands ({error!r}). "
                "Export the file again."
            ) from error


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


def _build(kind: type[Any], document: dict[str, Any]) -> Any:
    known = {item.name for item in dataclasses.fields(kind)}
    values = {name: value for name, value in document.items() if name in known}
    if "shape" in values:
        values["shape"] = tuple(values["shape"])
    return kind(**values)
