"""The process that writes a log, so that encoding and disks never delay the loop of the robot.

It is started by a `Recorder` as a fresh interpreter, which imports neither onnxruntime nor torch. It takes ticks and
events from memory that both processes share, and ends when it is asked to or when the other process is gone.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from exploy.errors import ExployError
from exploy.runtime.logs.formats import open_sink
from exploy.runtime.logs.log import Event, Header, Sink
from exploy.runtime.logs.records import read_event
from exploy.runtime.logs.ring import DONE, FAILED, ROW, Ring

_SECONDS_BETWEEN_WRITES = 0.2
_SECONDS_BETWEEN_SYNCS = 0.7  # with the time between writes, less than a second
_PIECE_SECONDS, _PAUSE = 0.0003, 0.0005  # of a write, and between writes
_SHARE_TO_HURRY = 0.25  # of the memory: fuller than this, there are no pauses
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGTSTP")
_NICENESS = 10


def main(job: dict[str, Any]) -> None:
    """Write a log until the recorder closes it or its process is gone. Prints one line once the log is open.

    Args:
        job: `memory` (file descriptor), `path`, `ending`, `header` and `parent` (process id).
    """
    _leave_the_loop_alone()
    ring = Ring(job["memory"])
    try:
        header = Header.from_document(job["header"])
        sink = open_sink(Path(job["path"]), job["ending"], header)
    except Exception as error:
        known = str(error) if isinstance(error, ExployError) else f"{type(error).__name__}: {error}"
        print(json.dumps({"refused": known}), flush=True)
        return
    print(json.dumps({"ready": True}), flush=True)
    failures = []
    for step in (lambda: _write_until_closed(ring, sink, header, job["parent"]), sink.close):
        try:
            step()
        except Exception as error:
            failures.append(_reason(error))
    if failures:
        ring.end(FAILED, failures[0])
    else:
        ring.end(DONE)


def _leave_the_loop_alone() -> None:
    """Ignore signals that are meant for the robot's program, and give way to it on a busy processor."""
    for name in _IGNORED:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):  # a loop under a real-time policy hands it on to its children
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICENESS)


def _write_until_closed(ring: Ring, sink: Sink, header: Header, parent: int) -> None:
    """Write what is in the ring, again and again.

    Raises:
        Exception: Of any kind, if the log cannot be written.
    """
    paced = _PacedSink(sink, ring)
    is_over = is_dirty = False
    synced = time.monotonic()
    while not is_over:
        is_over = _is_over(ring, parent)
        head = ring.settled()
        rows, events = _taken(ring, head, header)
        if len(rows) or events:
            has_time = not is_over and ring.share_used < _SHARE_TO_HURRY
            paced.write(rows, events, _PAUSE if has_time else 0.0)
            is_dirty = True
        ring.release(head)
        if is_dirty and time.monotonic() - synced >= _SECONDS_BETWEEN_SYNCS:
            sink.sync()
            synced, is_dirty = time.monotonic(), False


class _PacedSink:
    """Writes in short pieces, with pauses: the loop may wait for this core, and must not wait for long."""

    def __init__(self, sink: Sink, ring: Ring):
        self._sink, self._ring = sink, ring
        self._at_once = 1.0
        self._rows = 0

    def write(self, rows: np.ndarray, events: list[Event], pause: float) -> None:
        """Write all of it, with pauses of so many seconds."""
        pending = list(events)
        start = 0
        while start < len(rows) or pending:
            piece = rows[start : start + int(self._at_once)]
            start += len(piece)
            is_last = start == len(rows)
            now = [event for event in pending if is_last or event.row < self._rows + len(piece)]
            pending = pending[len(now) :]
            began = time.perf_counter()
            self._sink.write(piece, now)
            self._rows += len(piece)
            self._ring.count_rows(len(piece))
            seconds = max(time.perf_counter() - began, 1e-9)
            self._at_once = max(1.0, min(self._at_once * _PIECE_SECONDS / seconds, 2 * self._at_once))
            if pause and not is_last:
                time.sleep(pause)


def _is_over(ring: Ring, parent: int) -> bool:
    """Wait for the next write. Return whether it is the last one: asked to close, or the other process is gone."""
    readable, _, _ = select.select([sys.stdin], [], [], _SECONDS_BETWEEN_WRITES)
    return bool(readable) or ring.is_closing or os.getppid() != parent  # readable: the end of the pipe


def _taken(ring: Ring, head: int, header: Header) -> tuple[np.ndarray, list[Event]]:
    rows, events = [], []
    for kind, content in ring.records(head):
        if kind == ROW:
            rows.append(content)
        else:
            events.append(read_event(content, header))
    return np.frombuffer(b"".join(rows), dtype=header.row_type), events


def _reason(error: Exception) -> str:
    if isinstance(error, ExployError):
        return str(error)
    return (error.strerror or str(error)) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
