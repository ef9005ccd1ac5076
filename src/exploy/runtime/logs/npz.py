"""Logs as one .npz file: one array per signal, readable with numpy only.

While it is written, the log is `NAME.npz.part`: a sequence of small .npz archives, each preceded by its length.
When the log is closed, they are merged into one archive. If the process is killed, the parts can still be read.
"""

import dataclasses
import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from exploy.atomic_write import replacing
from exploy.errors import LogError
from exploy.runtime.logs.log import Event, Header, Log, Row, require_new_file

_LENGTH = struct.Struct("<Q")


class NpzSink:
    """Writes a log part by part.

    Raises:
        LogError: If the log exists.
    """

    def __init__(self, path: Path, header: Header):
        self._path, self._part = path, _part_of(path)
        require_new_file(self._part)
        misnamed = [signal.name for signal in header.signals if signal.name.endswith(".npy")]
        if misnamed:
            raise LogError(
                f"Names in an .npz log must not end with .npy, got {', '.join(misnamed)}. Log to .mcap instead."
            )
        self._header = header
        self._stream = self._part.open("xb")
        self.write([], [])

    def write(self, rows: list[Row], events: list[Event]) -> None:
        """Add a part."""
        data = _archive(Log.of_rows(self._header, rows, events))
        self._stream.write(_LENGTH.pack(len(data)) + data)
        self._stream.flush()

    def close(self) -> None:
        """Merge all parts into one archive, which replaces the parts once it is complete."""
        self._stream.close()
        require_new_file(self._path)
        with replacing(self._path) as temporary:
            temporary.write_bytes(_archive(_joined(list(_parts(self._part)))))
        self._part.unlink()


def read(path: Path) -> Log:
    """Read a log, or its parts if it was not closed.

    Raises:
        Exception: Of any kind, if it is damaged.
    """
    if not path.exists() and _part_of(path).exists():
        return _joined(list(_parts(_part_of(path))))
    return _log(path.read_bytes())


def _part_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _parts(path: Path) -> Iterator[Log]:
    """Yield the parts of a log; a truncated last part is skipped."""
    data = path.read_bytes()
    position = 0
    while position + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        start = position + _LENGTH.size
        position = start + length
        if position <= len(data):
            yield _log(data[start:position])


def _joined(parts: list[Log]) -> Log:
    if not parts:
        raise ValueError("it was truncated before anything was written")
    return Log(
        header=parts[0].header,
        tick=np.concatenate([part.tick for part in parts]),
        time=np.concatenate([part.time for part in parts]),
        duration=np.concatenate([part.duration for part in parts]),
        inputs={name: np.concatenate([part.inputs[name] for part in parts]) for name in parts[0].inputs},
        outputs={name: np.concatenate([part.outputs[name] for part in parts]) for name in parts[0].outputs},
        events=[event for part in parts for event in part.events],
    )


def _archive(log: Log) -> bytes:
    arrays: dict[str, Any] = {f"inputs/{name}": array for name, array in log.inputs.items()}
    arrays |= {f"outputs/{name}": array for name, array in log.outputs.items()}
    arrays |= {"tick": log.tick, "time": log.time, "duration": log.duration}
    arrays["header"] = np.array(json.dumps(dataclasses.asdict(log.header)))
    arrays["events"] = np.array(json.dumps(log.events, allow_nan=False))
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _log(data: bytes) -> Log:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        header = Header.from_document(json.loads(str(arrays["header"])))
        return Log(
            header,
            arrays["tick"],
            arrays["time"],
            arrays["duration"],
            {signal.name: arrays[f"inputs/{signal.name}"] for signal in header.inputs},
            {signal.name: arrays[f"outputs/{signal.name}"] for signal in header.outputs},
            [Event(int(row), int(time), dict(content)) for row, time, content in json.loads(str(arrays["events"]))],
        )
