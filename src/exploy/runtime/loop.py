"""Ticks a controller at a steady rate, and leaves the robot with a safe command."""

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
    """How a loop went.

    Args:
        ticks: How many ticks it made, held ones included.
        overruns: How many deadlines it missed.
        fault: What went wrong, where the guard that tripped is set to hold or call.
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
    """Read, tick and write at a steady rate, until Ctrl-C or a request to terminate.

    Deadlines are multiples of the period from the start, so that delays do not add up. One that is missed is counted
    and left out. However the loop ends, by a signal, a fault or an error of `read` or `write`, the last thing written
    is a safe command, if one is known. Where a guard holds or calls, the loop goes on writing what is held.

    Signals are handled in the main thread; in another one, use `stop`.

    Args:
        controller: The controller; its guards of time are armed for as long as the loop runs.
        read: Returns the inputs.
        write: Takes the outputs.
        hz: Ticks in a second; by default the rate that the file was made for.
        safe: The last command: outputs, or a function that makes them from the last good ones. By default these are
            held, but for velocities, forces and the like (by kind, unit and name of the port), which are zero.
        ticks: After how many ticks to stop; never if None.
        stop: Stops the loop when it is set, from any thread.

    Returns:
        How it went, when it was stopped by a signal, `ticks` or `stop`.

    Raises:
        FaultError: If a guard of the controller trips that is set to raise.
        RuntimeInputError: If the rate is not known, or not the one that the file was made for, or `safe` is unusable.
    """
    rate = hz if hz is not None else controller.contract.hz
    if rate is None:
        raise RuntimeInputError("The file does not tell its rate; give hz=.")
    if safe is not None and not callable(safe) and not isinstance(safe, Mapping):
        raise RuntimeInputError(f"safe must be outputs by name or a function that makes them, got {safe!r}.")
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
    """What a running loop knows."""

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
        """Write the safe command, if one is known; no signal interrupts that."""
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
        """Let a signal end the loop after a whole tick; a second one interrupts, unless it is finishing."""
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
    """The value to leave a port with: zero for what would go on moving the robot, else what it is."""
    words = f"{port.kind or ''} {port.name}".lower()
    moves = any(word in words for word in _RATES_AND_EFFORTS) or (port.unit or "").lower() in _THEIR_UNITS
    return np.zeros_like(value) if moves else value
