"""Logs as one .npz file: one array per signal, readable with numpy only.

While it is written, the log is a file of parts (`npz_parts`). When the log is closed, they are joined into one archive,
column by column, without loading the log into memory.
"""

import contextlib
import dataclasses
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from exploy.atomic_write import replacing
from exploy.errors import LogError
from exploy.runtime.archives.layout import require_sizes
from exploy.runtime.logs.growing_file import GrowingFile
from exploy.runtime.logs.log import Event, Header, Log
from exploy.runtime.logs.npz_parts import Parts, data_part, header_part


class NpzSink:
    """Writes a log part by part.

    Raises:
        LogError: If the log exists, or a name cannot be stored.
        OSError: If it cannot be written.
    """

    def __init__(self, path: Path, header: Header):
        misnamed = [signal.name for signal in header.signals if signal.name.endswith(".npy")]
        if misnamed:
            raise LogError(
                f"Names in an .npz log must not end with .npy, got {', '.join(misnamed)}. Log to .mcap instead."
            )
        self._path, self._part = path, part_of(path)
        self._file = GrowingFile(self._part)
        self._file.append(header_part(header))

    def write(self, rows: np.ndarray, events: list[Event]) -> None:
        """Add a part."""
        self._file.append(data_part(rows, events))

    def sync(self) -> None:
        """Bring all parts to the disk."""
        self._file.sync()

    def close(self) -> None:
        """Join all parts into one archive, which replaces the parts once it is complete.

        Raises:
            LogError: If another file has taken the place of the log. The parts can still be read.
            OSError: If the archive cannot be written. The parts can still be read.
        """
        self._file.close()
        if self._path.exists():
            raise LogError(f"{self._path} was created by somebody else; the log is in {self._part}.")
        with replacing(self._path) as temporary:
            _join(Parts.of(self._part), temporary)
        self._part.unlink()


def read(path: Path) -> Log:
    """Read a log, or its parts if it was not closed.

    Raises:
        Exception: Of any kind, if it is damaged.
    """
    if not path.exists():
        with contextlib.suppress(FileNotFoundError):  # it may be closed at this moment
            return _unclosed(Parts.of(part_of(path)))
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        require_sizes(arrays.zip.infolist(), path.stat().st_size)
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


def part_of(path: Path) -> Path:
    """The path of a log while it is written."""
    return path.with_name(f"{path.name}.part")


def _unclosed(parts: Parts) -> Log:
    kind = parts.header.row_type
    rows = np.empty(parts.rows, dtype=kind)
    for index, name in enumerate(kind.names or ()):
        column = np.frombuffer(b"".join(parts.column(index)), dtype=kind[name].base)
        rows[name] = column.reshape(len(rows), *kind[name].shape)
    return Log.of_rows(parts.header, rows, parts.events, is_closed=False)


def _join(parts: Parts, target: Path) -> None:
    """Write the archive that numpy.savez() would write, one part of one column at a time."""
    kind = parts.header.row_type
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for index, name in enumerate(_members(parts.header)):
            column = kind[index]
            _write(archive, name, column.base, (parts.rows, *column.shape), parts.column(index))
        texts: dict[str, Any] = {"header": dataclasses.asdict(parts.header), "events": parts.events}
        for name, content in texts.items():
            text = np.array(json.dumps(content, allow_nan=False))
            _write(archive, name, text.dtype, (), [text.tobytes()])


def _members(header: Header) -> list[str]:
    """The names of the arrays, in the order of the row layout."""
    named = [f"inputs/{signal.name}" for signal in header.inputs]
    return ["tick", "time", "duration", *named, *(f"outputs/{signal.name}" for signal in header.outputs)]


def _write(
    archive: zipfile.ZipFile, name: str, dtype: np.dtype, shape: tuple[int, ...], pieces: Iterable[bytes]
) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        description = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_2_0(member, description)
        for piece in pieces:
            member.write(piece)
