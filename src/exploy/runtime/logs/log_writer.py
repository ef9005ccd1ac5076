"""The process that writes a log, as the recorder sees it: started, fed, asked to end."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exploy.errors import LogError
from exploy.runtime.logs.interpreter import find_interpreter
from exploy.runtime.logs.log import Header
from exploy.runtime.logs.ring import DONE, FAILED, Ring, new_memory

_ROWS_IN_MEMORY, _FEWEST_ROWS = 16_384, 64
_LEAST_MEMORY, _MOST_MEMORY = 4 << 20, 64 << 20
_START = (
    "import json, sys; job = json.loads(sys.stdin.readline()); sys.path[:] = job['search']; "
    "from exploy.runtime.logs.writer_process import main; main(job)"
)


class LogWriter:
    """Hands records to a process of its own, which writes them to a log.

    Args:
        header: The description of the log.

    Raises:
        LogError: If there is not enough memory, or the system has no such processes.
    """

    def __init__(self, header: Header):
        if os.name != "posix":
            raise LogError("Recording needs Linux or macOS. Logs can be read and replayed on every system.")
        self._header = header
        size = header.row_type.itemsize
        wanted = min(max(size * _ROWS_IN_MEMORY, _LEAST_MEMORY), _MOST_MEMORY)
        try:
            self._memory = new_memory(max(wanted, size * _FEWEST_ROWS))
            self._ring: Ring | None = Ring(self._memory)
        except OSError as error:
            raise LogError(f"Cannot record: no memory for ticks that wait to be written ({error}).") from None
        self.push: Callable[[bytes], bool] = self._ring.push
        self._process: subprocess.Popen[str] | None = None
        self._result: str | None = None
        self._rows_written = 0
        _WRITERS.add(self)

    def start(self, path: Path, ending: str) -> None:
        """Start the process, and wait until it has opened the log.

        Raises:
            LogError: If it cannot be started, or the log cannot be written.
        """
        python = find_interpreter()
        if python is None:
            raise LogError("Recording starts a Python process, and no interpreter was found beside this program.")
        job = {
            "search": [str(folder) for folder in sys.path],
            "memory": self._memory,
            "path": str(path),
            "ending": ending,
            "header": dataclasses.asdict(self._header),
            "parent": os.getpid(),
        }
        try:
            self._process = subprocess.Popen(
                [python, "-P", "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                pass_fds=[self._memory],
                start_new_session=True,  # Ctrl-C is for the loop alone
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )
        except OSError as error:
            raise LogError(f"Cannot start the process that writes the log: {error.strerror or error}.") from None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        self._wait_until_open(self._process)

    def _wait_until_open(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said = line.strip() or said
            answer = _answer(line)
            if "ready" in answer:
                process.stdout.close()
                return
            if "refused" in answer:
                raise LogError(answer["refused"])
        raise LogError(f"The process that writes the log ended at its start: {said or _how_it_ended(process.wait())}.")

    @property
    def process_id(self) -> int:
        """The id of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def rows_written(self) -> int:
        """Number of rows in the log."""
        return self._rows_written if self._ring is None else self._ring.rows_written

    @property
    def failure(self) -> str | None:
        """Why the log is no longer written, or None."""
        if self._ring is None or self._process is None:
            return self._result
        if self._ring.status == FAILED:
            return self._ring.failure
        code = self._process.poll()
        return None if code is None or self._ring.status == DONE else _how_it_ended(code)

    def close(self) -> str | None:
        """Let the process write the rest and finish the log, and wait for it. Return why it failed, or None."""
        assert self._ring is not None and self._process is not None and self._process.stdin is not None
        self._ring.ask_to_close()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        code = self._process.wait()
        self._result = self._ring.failure if self._ring.status == FAILED else None
        if self._result is None and self._ring.status != DONE:
            self._result = _how_it_ended(code)
        self.release()
        return self._result

    def release(self) -> None:
        """Take no more records and let go of the memory. A loop in another thread may be writing to it until then."""
        if self._ring is None:
            return
        self._rows_written = self._ring.rows_written
        self.stop_taking()
        self._ring = None
        os.close(self._memory)
        if self._process is not None:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            self._process.wait()

    def stop_taking(self) -> None:
        """Take no more records."""
        self.push = _take_nothing


def _answer(line: str) -> dict[str, Any]:
    """The answer in a line of the process; empty if the line is something else, such as a warning."""
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _take_nothing(record: bytes) -> bool:
    return False


_WRITERS: "weakref.WeakSet[LogWriter]" = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """A forked process has the same memory, where two writers would spoil the log."""
    for writer in list(_WRITERS):
        writer.stop_taking()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


def _how_it_ended(code: int) -> str:
    try:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    except ValueError:
        how = f"by signal {-code}"
    return f"the process that writes it was ended {how}"
