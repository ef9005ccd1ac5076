"""The .npz log while it is written: `NAME.npz.part`, a sequence of parts, each under a checksum of its own.

The first part holds the header. Each of the others holds the columns of some ticks, one after the other, and the
events between them. A file that was cut off anywhere can be read up to its last whole part.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np

from exploy.runtime.logs.log import Event, Header

_MAGIC = b"\x93exploy\x1a"
_PREFIX = struct.Struct("<8sQQQI")  # magic, rows, bytes of columns, bytes of text, checksum of all else


def header_part(header: Header) -> bytes:
    """The first part of a file."""
    return _part(0, b"", json.dumps(asdict(header)).encode())


def data_part(rows: np.ndarray, events: list[Event]) -> bytes:
    """A part with ticks and events."""
    columns = b"".join(rows[name].tobytes() for name in rows.dtype.names or ())
    return _part(len(rows), columns, json.dumps(events, allow_nan=False).encode())


def _part(rows: int, columns: bytes, text: bytes) -> bytes:
    prefix = _PREFIX.pack(_MAGIC, rows, len(columns), len(text), 0)
    checksum = zlib.crc32(text, zlib.crc32(columns, zlib.crc32(prefix)))
    return _PREFIX.pack(_MAGIC, rows, len(columns), len(text), checksum) + columns + text


@dataclass
class Parts:
    """The contents of a file of parts. The columns stay in the file until they are asked for.

    Args:
        path: The file.
        header: The description of the log.
        places: Where the columns of each part are, and how many rows they have.
        events: All events.
    """

    path: Path
    header: Header
    places: list[tuple[int, int]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Number of ticks."""
        return sum(rows for _, rows in self.places)

    @classmethod
    def of(cls, path: Path) -> Self:
        """Find the parts of a file, without a last part that is not whole.

        Raises:
            ValueError: If a part in the middle is damaged.
        """
        with path.open("rb") as stream:
            found = _whole_parts(stream)
            _, _, text = next(found, (0, 0, b""))
            parts = cls(path, Header.from_document(json.loads(text)))
            width = parts.header.row_type.itemsize
            for start, rows, text in found:
                parts.places.append((start, rows))
                parts.events += [Event(int(row), int(time), dict(content)) for row, time, content in json.loads(text)]
            if any(rows * width != size for (_, rows), size in zip(parts.places, _sizes(stream, parts), strict=True)):
                raise ValueError("the columns of a part have another size than its rows")
        return parts

    def column(self, index: int) -> Iterator[bytes]:
        """Yield the bytes of one column of the row layout, part by part."""
        kind = self.header.row_type
        names = kind.names or ()
        before = sum(kind[name].itemsize for name in names[:index])
        size = kind[names[index]].itemsize
        with self.path.open("rb") as stream:
            for start, rows in self.places:
                stream.seek(start + rows * before)
                yield stream.read(rows * size)


def _sizes(stream: BinaryIO, parts: Parts) -> Iterator[int]:
    """Yield the bytes of columns that each part states."""
    for start, _ in parts.places:
        stream.seek(start - _PREFIX.size)
        yield _PREFIX.unpack(stream.read(_PREFIX.size))[2]


def _whole_parts(stream: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield where the columns of each part start, how many rows they have, and the text of the part."""
    while True:
        start = stream.tell()
        prefix = stream.read(_PREFIX.size)
        if not prefix:
            return
        part = _checked(stream, prefix)
        if part is None:
            stream.seek(start + 1)
            if _MAGIC in stream.read():
                raise ValueError(f"the part at byte {start} is damaged")
            return
        yield start + _PREFIX.size, *part


def _checked(stream: BinaryIO, prefix: bytes) -> tuple[int, bytes] | None:
    """Return the rows and the text of a part, or None if it is not whole."""
    if len(prefix) < _PREFIX.size:
        return None
    magic, rows, columns, text_size, checksum = _PREFIX.unpack(prefix)
    start = stream.tell()
    remaining = stream.seek(0, 2) - start
    stream.seek(start)
    if magic != _MAGIC or columns + text_size > remaining:
        return None
    found = zlib.crc32(_PREFIX.pack(magic, rows, columns, text_size, 0))
    found = zlib.crc32(stream.read(columns), found)
    text = stream.read(text_size)
    return (rows, text) if zlib.crc32(text, found) == checksum else None
