"""A log in memory, and the code that both formats share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from exploy.errors import LogError

_TEXTS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True)
class Signal:
    """A logged input or output: name, dtype, shape, and the names of its elements in the file's order."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Header:
    """The description of a log.

    Args:
        file_digest: Digest of the file that the controller ran.
        decimation: Number of ticks per policy step.
        inputs: The inputs, in the order of the file.
        outputs: The outputs, in the order of the file.
        started: Start time of the log, in nanoseconds since 1970.
    """

    file_digest: str
    decimation: int
    inputs: tuple[Signal, ...]
    outputs: tuple[Signal, ...]
    started: int

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Header":
        """Create a header from a dictionary made by dataclasses.asdict()."""
        inputs, outputs = (
            tuple(
                Signal(
                    str(item["name"]),
                    str(np.dtype(item["dtype"])),
                    tuple(map(int, item["shape"])),
                    None if item["names"] is None else tuple(map(str, item["names"])),
                )
                for item in document[part]
            )
            for part in ("inputs", "outputs")
        )
        return cls(str(document["file_digest"]), int(document["decimation"]), inputs, outputs, int(document["started"]))


class Row(NamedTuple):
    """One tick: its number since the reset, start time, duration, and the bytes of all signals."""

    tick: int
    time: int
    duration: int
    values: list[bytes]


class Event(NamedTuple):
    """An event between ticks: the number of log rows before it, its time, and its content."""

    row: int
    time: int
    content: dict[str, Any]


class Sink(Protocol):
    """Writes a log."""

    def write(self, rows: list[Row], events: list[Event]) -> None:
        """Add ticks and events, so that they are kept even if the process is killed afterwards."""

    def close(self) -> None:
        """Finish the log."""


@dataclass(frozen=True)
class Log:
    """A complete log. The first dimension of the arrays is the tick; times are in nanoseconds."""

    header: Header
    tick: np.ndarray
    time: np.ndarray
    duration: np.ndarray
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    events: list[Event] = field(default_factory=list)

    @property
    def ticks(self) -> int:
        """Number of ticks in the log."""
        return len(self.tick)

    @classmethod
    def of_rows(cls, header: Header, rows: list[Row], events: list[Event]) -> "Log":
        """Create a log from rows."""
        columns = {
            signal.name: np.frombuffer(b"".join(row.values[index] for row in rows), dtype=signal.dtype).reshape(
                len(rows), *signal.shape
            )
            for index, signal in enumerate(header.signals)
        }
        outputs = {signal.name: columns.pop(signal.name) for signal in header.outputs}
        numbers = [np.array([row[field] for row in rows], dtype=np.int64) for field in range(3)]
        return cls(header, numbers[0], numbers[1], numbers[2], columns, outputs, events)


def to_json(array: np.ndarray) -> list[Any]:
    """Return the numbers of a flattened array as JSON values; non-finite numbers become strings."""
    values: list[Any] = array.reshape(-1).tolist()
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return values
    return [value if math.isfinite(value) else _TEXTS[str(value)] for value in values]


def from_json(values: list[Any], dtype: str) -> np.ndarray:
    """Restore the numbers that were given to to_json()."""
    numbers = {text: float(number) for number, text in _TEXTS.items()}
    return np.array([numbers[value] if isinstance(value, str) else value for value in values], dtype=dtype)


def require_new_file(path: Path) -> None:
    """Check that a log would not be overwritten.

    Raises:
        LogError: If the file exists.
    """
    if path.exists():
        raise LogError(f"{path} already exists, and logs are never overwritten. Choose another name.")
