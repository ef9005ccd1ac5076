"""Logs as MCAP, for Foxglove and other robot tools: one topic per signal, messages in JSON.

Messages are written one by one and not in chunks, so that the log of a killed process can be read. Each tick and each
event carries a checksum (`crc`) of itself and of everything before it, starting with the header. A closed log ends with
the number of ticks and events and the last checksum.
"""

import dataclasses
import json
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from exploy.errors import LogError
from exploy.runtime.logs.growing_file import GrowingFile
from exploy.runtime.logs.log import Event, Header, Log, Signal, from_json, to_json

_LIBRARY = "exploy"
_HEADER, _END = "exploy.log", "exploy.log.end"
_LAST_BYTES = b"\x89MCAP0\r\n"  # of every closed file
_TICK, _EVENT = "/tick", "/events"
_DATA_SCHEMA = {"type": "object", "properties": {"data": {"type": "array", "items": {"type": "number"}}}}
_TICK_SCHEMA = {"type": "object", "properties": {name: {"type": "integer"} for name in ("tick", "duration", "crc")}}
_EVENT_SCHEMA = {"type": "object", "properties": {"event": {"type": "string"}, "crc": {"type": "integer"}}}


def _modules() -> tuple[Any, Any]:
    try:
        import mcap.stream_reader
        import mcap.writer
    except ImportError as error:
        raise LogError(
            f"MCAP logs need the package mcap ({error}). Install it: pip install 'exploy[mcap]', or log to .npz."
        ) from None
    return mcap.writer, mcap.stream_reader


class _Chain:
    """A checksum of everything so far."""

    def __init__(self, header: str):
        self.value = zlib.crc32(header.encode())

    def add(self, time: int, data: bytes) -> None:
        """Add the values of one signal."""
        self.value = zlib.crc32(data, zlib.crc32(b"%d " % time, self.value))

    def add_tick(self, tick: int, time: int, duration: int) -> int:
        """Add the end of a tick, and return the checksum."""
        self.value = zlib.crc32(b"%d %d %d" % (tick, time, duration), self.value)
        return self.value

    def add_event(self, event: Event) -> int:
        """Add an event, and return the checksum."""
        text = json.dumps(event, allow_nan=False)
        self.value = zlib.crc32(text.encode(), self.value)
        return self.value


class _Unwritten:
    """The stream that the writer of mcap writes to: collects bytes until they are taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


class McapSink:
    """Writes a log message by message.

    Raises:
        LogError: If mcap is not installed.
        OSError: If the log exists, or cannot be written.
    """

    def __init__(self, path: Path, header: Header):
        writer, _ = _modules()
        self._header = header
        self._unwritten = _Unwritten()
        self._writer = writer.Writer(self._unwritten, use_chunking=False, enable_data_crcs=True)
        self._writer.start(profile="", library=_LIBRARY)
        text = json.dumps(dataclasses.asdict(header))
        self._chain = _Chain(text)
        self._writer.add_metadata(_HEADER, {"header": text})
        self._tick = self._channel(_TICK, "exploy.Tick", _TICK_SCHEMA, {})
        self._event = self._channel(_EVENT, "exploy.Event", _EVENT_SCHEMA, {})
        topics = {signal.name: topic for topic, signal in _topics(header).items()}
        self._channels = [
            self._channel(topics[signal.name], "exploy.Values", _DATA_SCHEMA, {"names": json.dumps(signal.names)})
            for signal in header.signals
        ]
        self._rows = self._events = 0
        self._is_whole = True
        self._file = GrowingFile(path)
        self._file.append(self._unwritten.take())

    def write(self, rows: np.ndarray, events: list[Event]) -> None:
        """Add messages. An event comes before the tick that follows it."""
        self._is_whole = False  # until all of it is in the file
        pending = list(events)
        columns = [rows[name] for name in rows.dtype.names or ()]
        for index in range(len(rows)):
            while pending and pending[0].row <= self._rows:
                self._add_event(pending.pop(0))
            tick, time, duration = (int(column[index]) for column in columns[:3])
            self._add_tick(tick, time, duration, [column[index] for column in columns[3:]])
        for event in pending:
            self._add_event(event)
        self._file.append(self._unwritten.take())
        self._is_whole = True

    def sync(self) -> None:
        """Bring all messages to the disk."""
        self._file.sync()

    def close(self) -> None:
        """Write the end and the index, and close the file.

        Raises:
            OSError: If they cannot be written. What was written before can be read.
        """
        try:
            if self._is_whole:
                end = {"rows": self._rows, "events": self._events, "crc": self._chain.value}
                self._writer.add_metadata(_END, {name: str(value) for name, value in end.items()})
                self._writer.finish()
                self._file.append(self._unwritten.take())
        finally:
            self._file.close()

    def _add_tick(self, tick: int, time: int, duration: int, values: list[np.ndarray]) -> None:
        for channel, value in zip(self._channels, values, strict=True):
            data = _encoded({"data": to_json(value)})
            self._chain.add(time, data)
            self._message(channel, time, self._rows, data)
        crc = self._chain.add_tick(tick, time, duration)
        self._message(self._tick, time, self._rows, _encoded({"tick": tick, "duration": duration, "crc": crc}))
        self._rows += 1

    def _add_event(self, event: Event) -> None:
        crc = self._chain.add_event(event)
        self._message(self._event, event.time, event.row, _encoded(event.content | {"crc": crc}))
        self._events += 1

    def _channel(self, topic: str, name: str, schema: dict[str, Any], metadata: dict[str, str]) -> int:
        known = self._writer.register_schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
        channel: int = self._writer.register_channel(
            topic=topic, message_encoding="json", schema_id=known, metadata=metadata
        )
        return channel

    def _message(self, channel: int, time: int, sequence: int, data: bytes) -> None:
        self._writer.add_message(channel, log_time=time, publish_time=time, sequence=sequence, data=data)


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(content, allow_nan=False).encode()


class _Message(NamedTuple):
    """A message of a log: its topic, number, time and data."""

    topic: str
    sequence: int
    time: int
    data: bytes


def read(path: Path) -> Log:
    """Read a log, up to the point where writing stopped.

    Raises:
        LogError: If it is not a log of exploy, or mcap is not installed.
        Exception: Of any kind, if it is damaged.
    """
    _, stream_reader = _modules()
    is_closed = _is_closed(path)
    metadata: dict[str, dict[str, str]] = {}
    topics: dict[int, str] = {}
    messages: list[_Message] = []
    with path.open("rb") as stream:
        try:
            for record in stream_reader.StreamReader(stream, validate_crcs=True).records:
                kind = type(record).__name__
                if kind == "Metadata":
                    metadata[record.name] = record.metadata
                elif kind == "Channel":
                    topics[record.id] = record.topic
                elif kind == "Message":
                    messages.append(_Message(topics[record.channel_id], record.sequence, record.log_time, record.data))
        except Exception as error:
            if _HEADER not in metadata or is_closed:  # otherwise the process was killed and the file is truncated
                raise LogError(f"{path} is not a log of exploy, or is damaged ({error}).") from None
    if _HEADER not in metadata:
        raise LogError(f"{path} is not a log of exploy: it has no metadata {_HEADER!r}.")
    return _log(metadata, messages, is_closed)


def _log(metadata: dict[str, dict[str, str]], messages: list[_Message], is_closed: bool) -> Log:
    """Create the log from its complete ticks; the last message of each tick is that of the tick itself.

    Raises:
        Exception: Of any kind, if data is damaged, or missing other than at a truncated end.
    """
    text = metadata[_HEADER]["header"]
    reading = _Reading(Header.from_document(json.loads(text)), _Chain(text))
    for index, message in enumerate(messages):
        try:
            reading.take(message)
        except Exception:
            if is_closed or any(later.topic == _TICK for later in messages[index + 1 :]):
                raise
            break  # the power failed while this was written
    if is_closed:
        end = {"rows": len(reading.rows), "events": len(reading.events), "crc": reading.chain.value}
        if reading.values or metadata[_END] != {name: str(value) for name, value in end.items()}:
            raise ValueError("the end of the log is missing")
    rows = np.array(reading.rows, dtype=reading.header.row_type)
    return Log.of_rows(reading.header, rows, reading.events, is_closed)


class _Reading:
    """What was read so far."""

    def __init__(self, header: Header, chain: _Chain):
        self.header, self.chain = header, chain
        self.rows: list[tuple[Any, ...]] = []
        self.events: list[Event] = []
        self.values: dict[str, np.ndarray] = {}  # of the tick that is being read
        self._topics = _topics(header)

    def take(self, message: _Message) -> None:
        """Take a message.

        Raises:
            Exception: Of any kind, if it is damaged.
        """
        content = json.loads(message.data)
        if message.topic == _EVENT:
            crc = content.pop("crc")
            event = Event(message.sequence, message.time, content)
            self._require(self.chain.add_event(event), crc)
            self.events.append(event)
        elif message.topic == _TICK:
            crc = self.chain.add_tick(content["tick"], message.time, content["duration"])
            self._require(crc, content["crc"])
            values = [self.values.pop(name) for name in self._topics]
            if message.sequence != len(self.rows) or self.values:
                raise ValueError(f"row {len(self.rows)} is incomplete")
            self.rows.append((content["tick"], message.time, content["duration"], *values))
        else:
            self.chain.add(message.time, message.data)
            signal = self._topics[message.topic]
            self.values[message.topic] = from_json(content["data"], signal.dtype).reshape(signal.shape)

    def _require(self, found: int, stored: int) -> None:
        if found != stored:
            raise ValueError(f"the checksum at row {len(self.rows)} is wrong")


def _is_closed(path: Path) -> bool:
    """Return whether a log was closed, and not truncated."""
    with path.open("rb") as stream:
        stream.seek(-min(len(_LAST_BYTES), path.stat().st_size), os.SEEK_END)
        return stream.read() == _LAST_BYTES


def _topics(header: Header) -> dict[str, Signal]:
    topics = {f"/inputs/{signal.name}": signal for signal in header.inputs}
    return topics | {f"/outputs/{signal.name}": signal for signal in header.outputs}
