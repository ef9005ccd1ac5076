"""Records every tick of a controller without blocking it."""

import atexit
import os
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from exploy.contract import Port
from exploy.errors import LogError
from exploy.runtime.controller import Controller
from exploy.runtime.logs.formats import open_sink
from exploy.runtime.logs.log import Event, Header, Row, Signal, to_json

_SECONDS_BETWEEN_WRITES = 0.25


class Recorder:
    """Writes inputs, outputs and times of every tick to a log: `.npz`, or `.mcap` with the extra `mcap`.

    A separate thread writes four times per second, so a killed process loses at most the last second. The values are
    the inputs and outputs of the file, in the file's order. Use it as a context manager, or close it.

    Args:
        path: The log; it must not exist.
        controller: The controller, just loaded or reset.

    Raises:
        LogError: If the log cannot be written.
        RuntimeInputError: If the controller has ticked since its reset, or is already being recorded.
    """

    def __init__(self, path: str | Path, controller: Controller):
        self._controller = controller
        self._path = Path(path).absolute()
        self._error: Exception | None = None
        inputs, outputs = controller.signals()
        self._arrays = [*inputs.values(), *outputs.values()]
        self._offset = time.time_ns() - controller.now()
        self._process = os.getpid()
        self._rows: deque[Row] = deque()
        self._events: deque[Event] = deque()
        self._count = 0
        self._is_closed = False
        controller.listen(self)
        try:
            self._sink = open_sink(self._path, self._header(inputs, outputs))
        except BaseException:
            controller.unlisten(self)
            raise
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_until_stopped, name="exploy recorder", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def error(self) -> Exception | None:
        """The error that stopped the recording, or None. The controller continues to run."""
        return self._error

    def on_tick(self, tick: int, started: int, duration: int) -> None:
        """Store a copy of the values of a tick."""
        values = [array.tobytes() for array in self._arrays]
        self._rows.append(Row(tick, started + self._offset, duration, values))
        self._count += 1

    def on_event(self, event: dict[str, Any]) -> None:
        """Store an event; a fault is stored with the inputs of its tick."""
        if event["event"] == "fault":
            event |= {"inputs": {name: array.copy() for name, array in self._controller.signals()[0].items()}}
        self._events.append(Event(self._count, self._controller.now() + self._offset, event))

    def close(self) -> None:
        """Write the remaining data and finish the log. Does nothing if it is already closed, or in a forked process.

        Raises:
            LogError: If any data could not be written.
        """
        if self._is_closed or os.getpid() != self._process:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        self._controller.unlisten(self)
        self._stop.set()
        self._thread.join()
        try:
            self._write()
            self._sink.close()
        except Exception as error:
            self._error = self._error or error
        if self._error is not None:
            raise LogError(f"The log {self._path} is incomplete: {self._error}.") from self._error

    def _write_until_stopped(self) -> None:
        while not self._stop.wait(_SECONDS_BETWEEN_WRITES):
            try:
                self._write()
            except Exception as error:
                self._error = error
                self._controller.unlisten(self)
                return

    def _write(self) -> None:
        """Write the new rows and events. Events refer to rows, so they are taken first."""
        events = [_storable(self._events.popleft()) for _ in range(len(self._events))]
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        if self._error is None and (rows or events):
            self._sink.write(rows, events)

    def _header(self, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Header:
        contract = self._controller.contract
        ports = {port.name: port for port in (*contract.inputs, *contract.outputs)}
        return Header(
            file_digest=contract.digest,
            decimation=contract.decimation,
            inputs=tuple(_signal(ports[name], array) for name, array in inputs.items()),
            outputs=tuple(_signal(ports[name], array) for name, array in outputs.items()),
            started=time.time_ns(),
        )


def _storable(event: Event) -> Event:
    """Return an event with its arrays converted to JSON values."""
    inputs = {name: to_json(array) for name, array in event.content.get("inputs", {}).items()}
    return event._replace(content=event.content | {"inputs": inputs}) if inputs else event


def _signal(port: Port, array: np.ndarray) -> Signal:
    return Signal(port.name, str(array.dtype), array.shape, port.names)
