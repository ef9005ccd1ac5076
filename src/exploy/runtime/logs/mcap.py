"""Logs as MCAP, for Foxglove and other robot tools: one topic per signal, messages in JSON.

Messages are written one by one and not in chunks, so that the log of a killed process can be read.
"""

import dataclasses
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from exploy.errors import LogError
from exploy.runtime.logs.log import Event, Header, Log, Row, Signal, from_json, to_json

_LIBRARY = "exploy"
_HEADER = "exploy.log"
_END = b"\x89MCAP0\r\n"  # last bytes of every closed file
_TICK, _EVENT = "/tick", "/events"
_DATA_SCHEMA = {"type": "object", "properties": {"data": {"type": "array", "items": {"type": "number"}}}}
_TICK_SCHEMA = {"type": "object", "properties": {name: {"type": "integer"} for name in ("tick", "duration", "crc")}}
_EVENT_SCHEMA = {"type": "object", "properties": {"event": {"type": "string"}}}


def _modules() -> tuple[Any, Any]:
    try:
        import mcap.stream_reader
        import mcap.writer
    except ImportError as error:
        raise LogError(
            f"MCAP logs need the package mcap ({error}). Install it: pip install 'exploy[mcap]', or log to .npz."
        ) from None
    return mcap.writer, mcap.stream_reader


class McapSink:
    """Writes a log message by message.

    Raises:
        LogError: If the log exists, or mcap is not installed.
    """

    def __init__(self, path: Path, header: Header):
        writer, _ = _modules()
        self._header = header
        self._stream = path.open("xb")
        self._writer = writer.Writer(self._stream, use_chunking=False)
        self._writer.start(profile="", library=_LIBRARY)
        described = json.dumps(dataclasses.asdict(header))
        self._writer.add_metadata(_HEADER, {"header": described, "crc": str(zlib.crc32(described.encode()))})
        self._tick = self._channel(_TICK, "exploy.Tick", _TICK_SCHEMA, {})
        self._event = self._channel(_EVENT, "exploy.Event", _EVENT_SCHEMA, {})
        topics = {signal.name: topic for topic, signal in _topics(header).items()}
        self._channels = [
            self._channel(topics[signal.name], "exploy.Values", _DATA_SCHEMA, {"names": json.dumps(signal.names)})
            for signal in header.signals
        ]
        self._rows = 0
        self._stream.flush()

    def write(self, rows: list[Row], events: list[Event]) -> None:
        """Add messages and flush them to the operating system."""
        for event in events:
            self._message(self._event, event.time, event.row, event.content)
        for row in rows:
            for channel, signal, values in zip(self._channels, self._header.signals, row.values, strict=True):
                data = to_json(np.frombuffer(values, dtype=signal.dtype))
                self._message(channel, row.time, self._rows, {"data": data})
            tick = {"tick": row.tick, "duration": row.duration, "crc": zlib.crc32(b"".join(row.values))}
            self._message(self._tick, row.time, self._rows, tick)
            self._rows += 1
        self._stream.flush()

    def close(self) -> None:
        """Write the index and close the file."""
        self._writer.finish()
        self._stream.close()

    def _channel(self, topic: str, name: str, schema: dict[str, Any], metadata: dict[str, str]) -> int:
        known = self._writer.register_schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
        channel: int = self._writer.register_channel(
            topic=topic, message_encoding="json", schema_id=known, metadata=metadata
        )
        return channel

    def _message(self, channel: int, time: int, sequence: int, content: dict[str, Any]) -> None:
        data = json.dumps(content, allow_nan=False).encode()
        self._writer.add_message(channel, log_time=time, publish_time=time, sequence=sequence, data=data)


def read(path: Path) -> Log:
    """Read a log, up to the point where writing stopped.

    Raises:
        LogError: If it is not a log of exploy, or mcap is not installed.
        Exception: Of any kind, if it is damaged.
    """
    _, stream_reader = _modules()
    header: Header | None = None
    topics: dict[int, str] = {}
    messages: list[tuple[str, int, int, dict[str, Any]]] = []
    with path.open("rb") as stream:
        try:
            for record in stream_reader.StreamReader(stream).records:
                kind = type(record).__name__
                if kind == "Metadata" and record.name == _HEADER:
                    header = _header(record.metadata)
                elif kind == "Channel":
                    topics[record.id] = record.topic
                elif kind == "Message":
                    content = json.loads(record.data)
                    messages.append((topics[record.channel_id], record.sequence, record.log_time, content))
        except Exception as error:
            if header is None or _is_closed(path):  # otherwise the process was killed and the file is truncated
                raise LogError(f"{path} is not a log of exploy, or is damaged ({error}).") from None
    if header is None:
        raise LogError(f"{path} is not a log of exploy: it has no metadata {_HEADER!r}.")
    return _log(header, messages, _is_closed(path))


def _header(metadata: dict[str, str]) -> Header:
    """Read the header of a log.

    Raises:
        Exception: Of any kind, if it is damaged.
    """
    described = metadata["header"]
    if int(metadata["crc"]) != zlib.crc32(described.encode()):
        raise ValueError("the header is damaged")
    return Header.from_document(json.loads(described))


def _log(header: Header, messages: list[tuple[str, int, int, dict[str, Any]]], is_closed: bool) -> Log:
    """Create the log from its complete ticks; the last message of each tick is that of the tick itself.

    Raises:
        Exception: Of any kind, if data is damaged, or missing other than at a truncated end.
    """
    values: dict[str, bytes] = {}
    rows: list[Row] = []
    events = []
    known = _topics(header)
    for topic, sequence, time, content in messages:
        if topic == _EVENT:
            events.append(Event(sequence, time, content))
        elif topic != _TICK:
            values[topic] = from_json(content["data"], known[topic].dtype).tobytes()
        else:
            row = Row(content["tick"], time, content["duration"], [values.pop(name) for name in known])
            if sequence != len(rows) or values or zlib.crc32(b"".join(row.values)) != content["crc"]:
                raise ValueError(f"row {len(rows)} is damaged")
            rows.append(row)
    if values and is_closed:
        raise ValueError("the last row is incomplete")
    return Log.of_rows(header, rows, events)


def _is_closed(path: Path) -> bool:
    """Return whether a log was closed, and not truncated."""
    with path.open("rb") as stream:
        stream.seek(-min(len(_END), path.stat().st_size), os.SEEK_END)
        return stream.read() == _END


def _topics(header: Header) -> dict[str, Signal]:
    topics = {f"/inputs/{signal.name}": signal for signal in header.inputs}
    return topics | {f"/outputs/{signal.name}": signal for signal in header.outputs}
