"""Ticks a controller at a steady rate."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from exploy.errors import RuntimeInputError
from exploy.runtime.controller import Controller
from exploy.runtime.statistics import Stats

_NANOSECONDS = 1_000_000_000
_RATES_AND_EFFORTS = ("velocity", "effort", "torque", "force")

Outputs = dict[str, np.ndarray]
Safe = Mapping[str, Any] | Callable[[Outputs], Mapping[str, Any]]


@dataclass(frozen=True)
class Served:
    """How a loop went: how many ticks it made, how many deadlines it missed, and the controller's statistics."""

    ticks: int
    overruns: int
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
    """Read, tick and write at a steady rate, until Ctrl-C.

    Deadlines are multiples of the period from the start, so that delays do not add up. One that is missed is counted
    and left out. However the loop ends, by Ctrl-C, a fault or an error of `read` or `write`, the last thing written
    is a safe command, if there is one.

    Args:
        controller: The controller; its guards of time are armed for as long as the loop runs.
        read: Returns the inputs.
        write: Takes the outputs.
        hz: Ticks in a second; by default the rate that the file was made for.
        safe: The last command: outputs, or a function that makes them from the last good ones. By default these are
            held, but for velocities and efforts (by the kind of the port), which are zero.
        ticks: After how many ticks to stop; never if None.
        stop: Stops the loop when it is set, from any thread.

    Returns:
        How it went, when it was stopped by Ctrl-C, `ticks` or `stop`.

    Raises:
        FaultError: If a guard of the controller trips that is set to raise.
        RuntimeInputError: If the rate is not known, or not the one that the file was made for.
    """
    rate = hz if hz is not None else 1 / controller.contract.sim_dt if controller.contract.sim_dt else None
    if rate is None:
        raise RuntimeInputError("The file does not tell its rate; give hz=.")
    armed_before = controller.hz
    controller.arm(rate)
    stop = stop or threading.Event()
    loop = _Loop(controller, read, write, round(_NANOSECONDS / rate))
    try:
        with _interrupts_set(stop):
            try:
                loop.run(stop, ticks)
            finally:
                command = _safe_command(controller, loop.last, safe)
                if command is not None:
                    write(command)
    finally:
        controller.disarm()
        if armed_before is not None:
            controller.arm(armed_before)
    return Served(loop.ticks, loop.overruns, controller.stats)


class _Loop:
    def __init__(
        self,
        controller: Controller,
        read: Callable[[], Mapping[str, Any]],
        write: Callable[[Outputs], object],
        period: int,
    ):
        self._controller, self._read, self._write, self._period = controller, read, write, period
        self.last: Outputs | None = None
        self.ticks = self.overruns = 0

    def run(self, stop: threading.Event, ticks: int | None) -> None:
        deadline = time.perf_counter_ns()
        while not stop.is_set() and (ticks is None or self.ticks < ticks):
            outputs = self._controller.step(self._read())
            self.last = outputs
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


def _safe_command(controller: Controller, last: Outputs | None, safe: Safe | None) -> Outputs | None:
    """The command to end with; None if nothing is known that would be safe."""
    if isinstance(safe, Mapping):
        return dict(safe)
    if last is None:
        return None
    if safe is not None:
        return dict(safe(last))
    return {name: np.zeros_like(value) if _is_rate(controller, name) else value for name, value in last.items()}


def _is_rate(controller: Controller, output: str) -> bool:
    kind = controller.ports[output].kind or ""
    return any(word in kind for word in _RATES_AND_EFFORTS)


@contextlib.contextmanager
def _interrupts_set(stop: threading.Event) -> Iterator[None]:
    """Let the first Ctrl-C set an event, so that no tick is cut in two; a second one interrupts as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
