"""A log in memory, and the code that both formats share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

GAP = "gap"  # the event in place of ticks that were not recorded
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

    @property
    def row_type(self) -> np.dtype:
        """The layout of one tick: its number since the reset, start time, duration, and the values of all signals."""
        fields: list[Any] = [(name, np.int64) for name in ("tick", "time", "duration")]
        fields += [(f"signal {index}", item.dtype, item.shape) for index, item in enumerate(self.signals)]
        return np.dtype(fields)

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


class Event(NamedTuple):
    """An event between ticks: the number of log rows before it, its time, and its content."""

    row: int
    time: int
    content: dict[str, Any]


class Sink(Protocol):
    """Writes a log."""

    def write(self, rows: np.ndarray, events: list[Event]) -> None:
        """Add ticks, in the layout of the header, and events. They are kept if the process is killed afterwards.

        Raises:
            OSError: If they cannot be written. The log then ends with what was written before.
        """

    def sync(self) -> None:
        """Bring everything to the disk, so that it is kept if the power fails afterwards."""

    def close(self) -> None:
        """Finish the log. The file is closed in any case.

        Raises:
            OSError: If it cannot be finished. What was written can still be read.
        """


@dataclass(frozen=True)
class Log:
    """A log. The first dimension of the arrays is the tick; times are in nanoseconds.

    `is_closed` is False if the log was not finished: the recorder was killed, or the power failed.
    """

    header: Header
    tick: np.ndarray
    time: np.ndarray
    duration: np.ndarray
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    events: list[Event] = field(default_factory=list)
    is_closed: bool = True

    @property
    def ticks(self) -> int:
        """Number of ticks in the log."""
        return len(self.tick)

    @classmethod
    def of_rows(cls, header: Header, rows: np.ndarray, events: list[Event], is_closed: bool) -> "Log":
        """Create a log from rows in the layout of its header."""
        columns = [np.ascontiguousarray(rows[name]) for name in header.row_type.names or ()]
        values = dict(zip([signal.name for signal in header.inputs], columns[3:], strict=False))
        outputs = dict(zip([signal.name for signal in header.outputs], columns[3 + len(header.inputs) :], strict=True))
        return cls(header, columns[0], columns[1], columns[2], values, outputs, events, is_closed)


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
