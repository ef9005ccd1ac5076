"""A queue of records in memory that two processes share: one writes, the other reads, and neither waits.

The counters `head` and `tail` are the numbers of bytes ever written and read. The writer copies a record and then moves
`head`. The reader sees `head` some milliseconds later at the earliest (`settled()`), so that a processor that reorders
stores cannot show it half of a record.
"""

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterator
from typing import Any

_PAGE = 4096  # counters and the reader's message come first
_TEXT = 128
_HEAD, _TAIL, _ROWS, _CLOSING, _STATUS = range(5)
_RECORD = struct.Struct("=II")  # bytes of the record with this prefix, kind
_SETTLING_SECONDS = 0.002
_FIRST_DESCRIPTOR = 3  # a process without standard streams must not hand its memory on as one of them
SKIP, ROW, EVENT = range(3)
RUNNING, DONE, FAILED = range(3)


def record_prefix(kind: int, size: int) -> bytes:
    """The first bytes of a record with so many bytes of content."""
    return _RECORD.pack(_RECORD.size + size, kind)


def new_memory(capacity: int) -> int:
    """Allocate memory for a ring that holds so many bytes, and return its file descriptor.

    Raises:
        OSError: If there is not enough memory.
    """
    import fcntl  # not on Windows, where logs can be read all the same

    if hasattr(os, "memfd_create"):
        opened = os.memfd_create("exploy recorder")
    else:
        with tempfile.TemporaryFile() as file:
            opened = os.dup(file.fileno())
    descriptor = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
    os.close(opened)
    size = _PAGE + _aligned(capacity)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class Ring:
    """One end of the queue. The memory is given back when the last reference to it is gone.

    Args:
        descriptor: The memory; it stays open.
    """

    def __init__(self, descriptor: int):
        size = os.fstat(descriptor).st_size
        flags: dict[str, Any] = {"flags": mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)}
        self._memory = memoryview(mmap.mmap(descriptor, size, **flags))
        self._counters = self._memory[:_TEXT].cast("Q")
        self._bytes = self._memory[_PAGE:]
        self._capacity = len(self._bytes)
        self._head = self._counters[_HEAD]

    # -- the side that writes -----------------------------------------------------------------------------------------

    def push(self, record: bytes) -> bool:
        """Add a record that starts with its prefix. Return False if there is no room for it."""
        size = _aligned(len(record))
        head = self._head
        start = head % self._capacity
        room = self._capacity - start
        needed = size if size <= room else room + size
        if head + needed - self._counters[_TAIL] > self._capacity:
            return False
        if size > room:
            self._bytes[start : start + _RECORD.size] = _RECORD.pack(room, SKIP)
            start = 0
        self._bytes[start : start + len(record)] = record
        self._head = head + needed
        self._counters[_HEAD] = self._head
        return True

    def ask_to_close(self) -> None:
        """Tell the reader that no more records will come."""
        self._counters[_CLOSING] = 1

    @property
    def status(self) -> int:
        """The state of the reader: RUNNING, DONE or FAILED."""
        return self._counters[_STATUS]

    @property
    def rows_written(self) -> int:
        """The number of rows that the reader has written to the log."""
        return self._counters[_ROWS]

    @property
    def failure(self) -> str:
        """The message that the reader left when it failed."""
        return bytes(self._memory[_TEXT:_PAGE]).partition(b"\0")[0].decode(errors="replace")

    # -- the side that reads ------------------------------------------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        """Whether no more records will come."""
        return bool(self._counters[_CLOSING])

    @property
    def share_used(self) -> float:
        """How full the memory is, from 0 to 1."""
        return (self._counters[_HEAD] - self._counters[_TAIL]) / self._capacity

    def settled(self) -> int:
        """Return a head up to which everything can be read."""
        head = self._counters[_HEAD]
        while True:
            time.sleep(_SETTLING_SECONDS)
            again = self._counters[_HEAD]
            if head <= again:  # otherwise it was being written
                return head
            head = again

    def records(self, head: int) -> Iterator[tuple[int, bytes]]:
        """Yield kind and content of the records up to a settled head. Their room is free after `release()`."""
        tail = self._counters[_TAIL]
        while tail < head:
            start = tail % self._capacity
            size, kind = _RECORD.unpack(self._bytes[start : start + _RECORD.size])
            if kind != SKIP:
                yield kind, bytes(self._bytes[start + _RECORD.size : start + size])
            tail += _aligned(size)

    def release(self, head: int) -> None:
        """Free the room up to a head."""
        self._counters[_TAIL] = head

    def count_rows(self, rows: int) -> None:
        """State that more rows are in the log."""
        self._counters[_ROWS] += rows

    def end(self, status: int, failure: str = "") -> None:
        """State how reading ended."""
        text = failure.encode()[: _PAGE - _TEXT - 1] + b"\0"
        self._memory[_TEXT : _TEXT + len(text)] = text
        self._counters[_STATUS] = status


def _aligned(size: int) -> int:
    return (size + 7) & ~7
