"""Records every tick of a controller without making it wait."""

import atexit
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from exploy.contract import Port
from exploy.errors import LogError
from exploy.runtime.controller import Controller
from exploy.runtime.logs.formats import new_log_path
from exploy.runtime.logs.log import GAP, Event, Header, Signal
from exploy.runtime.logs.log_writer import LogWriter
from exploy.runtime.logs.records import RowRecords, event_record


class Recorder:
    """Writes inputs, outputs and times of every tick to a log: `.npz`, or `.mcap` with the extra `mcap`.

    A process of its own writes several times per second, so the loop never waits for encoding or for the disk. If the
    program is killed, everything up to its last tick is written. If the power fails, at most the last second is lost.
    The values are the inputs and outputs of the file, in the file's order. Use it as a context manager, or close it.

    Args:
        path: The log; it must not exist. If it is a link, the file that it leads to is written.
        controller: The controller, just loaded or reset.

    Raises:
        LogError: If the log cannot be written.
        RuntimeInputError: If the controller has ticked since its reset, or is already being recorded.
    """

    def __init__(self, path: str | Path, controller: Controller):
        self._controller = controller
        self._path = new_log_path(path)
        inputs, outputs = controller.signals()
        header = _header(controller, inputs, outputs)
        self._inputs = list(inputs.values())
        self._rows = RowRecords([*self._inputs, *outputs.values()], header.row_type.itemsize)
        self._offset = time.time_ns() - controller.now()
        self._owner = os.getpid()
        self._count = 0  # of rows that were handed over
        self._lost = self._lost_in_gap = 0
        self._has_gap = self._is_closed = False
        self._writer = LogWriter(header)
        try:
            controller.listen(self)
            self._writer.start(self._path, Path(path).suffix)
        except BaseException:
            controller.unlisten(self)
            self._writer.release()
            raise
        atexit.register(self.close)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def error(self) -> LogError | None:
        """The error that stopped the recording, or None. The controller continues to run."""
        failure = self._writer.failure
        return None if failure is None else self._incomplete(failure)

    @property
    def lost_ticks(self) -> int:
        """Number of ticks that are missing from the log, because the disk was too slow or the recording stopped."""
        return self._lost

    @property
    def process_id(self) -> int:
        """The process that writes the log."""
        return self._writer.process_id

    def on_tick(self, tick: int, started: int, duration: int) -> None:
        """Hand over a copy of the values of a tick."""
        record = self._rows.make(tick, started + self._offset, duration)
        if (not self._has_gap or self._told_of_gap()) and self._writer.push(record):
            self._count += 1
        else:
            self._lost += 1
            self._lost_in_gap += 1
            self._has_gap = True

    def on_event(self, event: dict[str, Any]) -> None:
        """Hand over an event; a fault with the inputs of its tick."""
        if self._has_gap and not self._told_of_gap():
            return
        inputs = self._inputs if event["event"] == "fault" else []
        self._has_gap = not self._push_event(event, inputs)

    def close(self) -> None:
        """Write the remaining data and finish the log. Does nothing if it is already closed, or in a forked process.

        Raises:
            LogError: If any data could not be written.
        """
        if self._is_closed or os.getpid() != self._owner:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        self._controller.unlisten(self)
        if self._has_gap:
            self._told_of_gap()
        failure = self._writer.close()
        if failure is not None:
            raise self._incomplete(failure)
        if self._lost or self._has_gap:
            raise self._incomplete(
                f"{self._lost} ticks are missing, because they came faster than they could be written; events of kind "
                f"{GAP!r} tell where"
            )

    def _told_of_gap(self) -> bool:
        """Hand over the event that stands for lost ticks. Return False if there is still no room."""
        self._has_gap = not self._push_event({"event": GAP, "ticks": self._lost_in_gap}, [])
        if not self._has_gap:
            self._lost_in_gap = 0
        return not self._has_gap

    def _push_event(self, content: dict[str, Any], inputs: list[np.ndarray]) -> bool:
        event = Event(self._count, self._controller.now() + self._offset, content)
        return self._writer.push(event_record(event, inputs))

    def _incomplete(self, reason: str) -> LogError:
        written = f"{self._writer.rows_written} of {self._count + self._lost} ticks were written"
        return LogError(f"The log {self._path} is incomplete: {reason.rstrip('.')}. {written}.")


def _header(controller: Controller, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Header:
    contract = controller.contract
    ports = {port.name: port for port in (*contract.inputs, *contract.outputs)}
    return Header(
        file_digest=contract.digest,
        decimation=contract.decimation,
        inputs=tuple(_signal(ports[name], array) for name, array in inputs.items()),
        outputs=tuple(_signal(ports[name], array) for name, array in outputs.items()),
        started=time.time_ns(),
    )


def _signal(port: Port, array: np.ndarray) -> Signal:
    return Signal(port.name, str(array.dtype), array.shape, port.names)
