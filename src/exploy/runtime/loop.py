"""Ticks a controller at a steady rate, and ends with a safe command."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from exploy.contract import Port
from exploy.errors import Fault, RuntimeInputError
from exploy.runtime.controller import Controller
from exploy.runtime.statistics import Stats

_NANOSECONDS = 1_000_000_000
_RATES_AND_EFFORTS = ("vel", "effort", "torque", "force", "twist", "current", "voltage")
_THEIR_UNITS = ("n", "nm", "n m", "n*m", "n·m", "rad/s", "m/s", "deg/s", "rpm", "a", "v", "w")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Outputs = dict[str, np.ndarray]
Safe = Mapping[str, Any] | Callable[[Outputs], Mapping[str, Any]]


@dataclass(frozen=True)
class Served:
    """The result of a loop.

    Args:
        ticks: Number of ticks, including held ones.
        overruns: Number of missed deadlines.
        fault: The fault, if the guard that tripped is set to hold or call.
        stats: The statistics of the controller since it was loaded.
    """

    ticks: int
    overruns: int
    fault: Fault | None
    stats: Stats


def serve_rate(
    controller: Controller,
    read: Callable[[], Mapping[str, Any]],
    write: Callable[[Outputs], object],
    hz: float | None = None,
    *,
    safe: Safe | None = None,
    ticks: int | None = None,
    stop: threading.Event | None = None,
) -> Served:
    """Read, tick and write at a steady rate, until Ctrl-C or SIGTERM.

    Deadlines are multiples of the period from the start, so delays do not add up. A missed deadline is counted and
    skipped. When the loop ends, by a signal, a fault or an error in `read` or `write`, a safe command is written last,
    if one is known. If a guard holds or calls, the loop continues and writes the held outputs.

    Signals are only handled in the main thread. In other threads, use `stop`.

    Args:
        controller: The controller; its rate is armed while the loop runs.
        read: Returns the inputs.
        write: Receives the outputs.
        hz: Ticks per second; by default the tick rate of the file.
        safe: The last command: outputs, or a function that computes them from the last good outputs. By default, the
            last good outputs are held, except that velocities, forces and similar outputs (by kind, unit and name of
            the port) are set to zero.
        ticks: Number of ticks after which to stop; no limit if None.
        stop: Stops the loop when it is set, from any thread.

    Returns:
        The result, if the loop was stopped by a signal, `ticks` or `stop`.

    Raises:
        FaultError: If a guard that is set to raise trips.
        RuntimeInputError: If the rate is unknown or not the tick rate of the file, or `safe` is invalid.
    """
    rate = hz if hz is not None else controller.contract.hz
    if rate is None:
        raise RuntimeInputError("The tick rate is not in the file. Pass hz=.")
    if safe is not None and not callable(safe) and not isinstance(safe, Mapping):
        raise RuntimeInputError(f"safe must be a dictionary of outputs, or a function that returns one, got {safe!r}.")
    armed_before = controller.hz
    controller.arm(rate)
    loop = _Loop(controller, read, write, round(_NANOSECONDS / rate), stop or threading.Event())
    try:
        with loop.signals_handled():
            try:
                loop.run(ticks)
            finally:
                loop.finish(safe)
    finally:
        controller.disarm()
        if armed_before is not None:
            controller.arm(armed_before)
    return Served(loop.ticks, loop.overruns, controller.fault, controller.stats)


class _Loop:
    """The state of a running loop."""

    def __init__(
        self,
        controller: Controller,
        read: Callable[[], Mapping[str, Any]],
        write: Callable[[Outputs], object],
        period: int,
        stop: threading.Event,
    ):
        self._controller, self._read, self._write, self._period, self._stop = controller, read, write, period, stop
        self._last: Outputs | None = None
        self._is_finishing = False
        self.ticks = self.overruns = 0

    def run(self, ticks: int | None) -> None:
        deadline = time.perf_counter_ns()
        while not self._stop.is_set() and (ticks is None or self.ticks < ticks):
            outputs = self._controller.step(self._read())
            self._last = {name: value.copy() for name, value in outputs.items()}
            self._write(outputs)
            self.ticks += 1
            deadline += self._period
            late = time.perf_counter_ns() - deadline
            if late > 0:
                missed = 1 + late // self._period
                self.overruns += missed
                deadline += missed * self._period
                late -= missed * self._period
            time.sleep(-late / _NANOSECONDS)

    def finish(self, safe: Safe | None) -> None:
        """Write the safe command, if one is known. Signals do not interrupt this."""
        self._is_finishing = True
        if isinstance(safe, Mapping):
            self._write(dict(safe))
        elif self._last is not None:
            ports = self._controller.ports
            command = {name: _stopped(ports[name], value) for name, value in self._last.items()}
            try:
                command = dict(safe(self._last)) if safe is not None else command
            finally:
                self._write(command)

    @contextlib.contextmanager
    def signals_handled(self) -> Iterator[None]:
        """Let a signal end the loop after the current tick; a second signal interrupts it, unless it is finishing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _handle(self, number: int, frame: object) -> None:
        if self._stop.is_set() and not self._is_finishing:
            raise KeyboardInterrupt
        self._stop.set()


def _stopped(port: Port, value: np.ndarray) -> np.ndarray:
    """Return the last value for a port: zero if the value would keep the robot moving, otherwise the value."""
    words = f"{port.kind or ''} {port.name}".lower()
    moves = any(word in words for word in _RATES_AND_EFFORTS) or (port.unit or "").lower() in _THEIR_UNITS
    return np.zeros_like(value) if moves else value
