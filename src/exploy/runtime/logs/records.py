"""The records that a recorder hands to the process that writes its log: both directions in one place."""

import json
import struct
from typing import Any

import numpy as np

from exploy.runtime.logs.log import Event, Header, to_json
from exploy.runtime.logs.ring import EVENT, ROW, record_prefix

_TICK = struct.Struct("=8sqqq")  # prefix of the record, then tick, time and duration
_EVENT = struct.Struct("=qqI")  # row, time, bytes of JSON; the inputs of a fault follow


class RowRecords:
    """Makes the record of each tick from arrays that stay in place.

    Args:
        arrays: All signals, in the order of the row layout; contiguous.
        row_size: Bytes of a row.
    """

    def __init__(self, arrays: list[np.ndarray], row_size: int):
        self._prefix = record_prefix(ROW, row_size)
        self._parts: list[Any] = [b"", *arrays]

    def make(self, tick: int, time: int, duration: int) -> bytes:
        """The record of a tick with the present values."""
        self._parts[0] = _TICK.pack(self._prefix, tick, time, duration)
        return b"".join(self._parts)


def event_record(event: Event, inputs: list[np.ndarray]) -> bytes:
    """The record of an event, with the present values of inputs as they are: encoding many would take long."""
    text = json.dumps(event.content, allow_nan=False).encode()
    parts: list[Any] = [_EVENT.pack(event.row, event.time, len(text)), text, *inputs]
    content = b"".join(parts)
    return record_prefix(EVENT, len(content)) + content


def read_event(content: bytes, header: Header) -> Event:
    """The event in the content of a record, with its inputs as JSON values."""
    row, moment, size = _EVENT.unpack_from(content)
    start = _EVENT.size + size
    event = Event(row, moment, json.loads(content[_EVENT.size : start]))
    if start == len(content):
        return event
    inputs = {}
    for signal in header.inputs:
        dtype, count = np.dtype(signal.dtype), int(np.prod(signal.shape, dtype=int))
        inputs[signal.name] = to_json(np.frombuffer(content, dtype, count, start))
        start += count * dtype.itemsize
    return event._replace(content=event.content | {"inputs": inputs})
