"""Ticks a controller at a steady rate, and ends with a safe command."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exploy.errors import Fault, RuntimeInputError
from exploy.runtime.controller import Controller
from exploy.runtime.safe_command import Safe, SafeCommand
from exploy.runtime.statistics import Stats
from exploy.runtime.stop_signals import StopSignals
from exploy.runtime.stop_values import Outputs

_NANOSECONDS = 1_000_000_000
_HANGS = 100_000_000  # nanoseconds after which a write may be interrupted: half a command is worse than a late one
_LONGEST_SLEEP = 0.05  # seconds; then it is looked whether the loop was stopped


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
    heartbeat: Callable[[], object] | None = None,
) -> Served:
    """Read, tick and write at a steady rate, until Ctrl-C, SIGTERM, SIGHUP, SIGQUIT or another deadly signal.

    Deadlines are multiples of the period from the start, so delays do not add up. A missed deadline is counted and
    skipped. When the loop ends, by a signal, a fault or an error in `read` or `write`, a safe command is written last,
    if one is known. If a guard holds or calls, the loop continues and writes the held outputs.

    A first signal ends the loop after the current tick. A second one interrupts a `read`, or a `write` that hangs for
    0.1 s. None interrupts the safe command. Signals are only handled in the main thread. In other threads, use `stop`.
    A loop in a daemon thread also ends when the interpreter exits. SIGHUP is left alone where it is ignored, as under
    `nohup`. SIGKILL and crashes cannot be handled: see `heartbeat`.

    Args:
        controller: The controller; its rate is armed while the loop runs.
        read: Returns the inputs.
        write: Receives the outputs.
        hz: Ticks per second; by default the tick rate of the file.
        safe: The last command: outputs, or a function that computes them from the last outputs. Outputs that it does
            not give get their stop value (`on_stop`, otherwise by kind and unit): positions are held, rates and efforts
            are zero.
        ticks: Number of ticks after which to stop; no limit if None.
        stop: Stops the loop when it is set, from any thread.
        heartbeat: Called once a tick, after the outputs were written, to feed a watchdog at the motors. It is also
            called while a fault is held, because the loop goes on writing. It is not called after the loop has ended.

    Returns:
        The result, if the loop was stopped by a signal, `ticks` or `stop`.

    Raises:
        FaultError: If a guard that is set to raise trips.
        RuntimeInputError: Before anything is read or written: if the rate is unknown or not the tick rate of the file,
            if `safe` or `heartbeat` is invalid, or if nothing says what to leave an output with. At the end: if what a
            `safe` function returned is invalid; stop values were written instead.
    """
    rate = hz if hz is not None else controller.contract.hz
    if rate is None:
        raise RuntimeInputError("The tick rate is not in the file. Pass hz=.")
    if heartbeat is not None and not callable(heartbeat):
        raise RuntimeInputError(f"heartbeat must be a function without arguments, got {heartbeat!r}.")
    command = SafeCommand(safe, controller.stop_values, controller.outputs, controller.ports)
    armed_before = controller.hz
    controller.arm(rate)
    loop = _Loop(controller, read, write, round(_NANOSECONDS / rate), stop, heartbeat)
    try:
        with loop.signals.handled(), loop.signals.stopped_at_exit():
            try:
                loop.run(ticks)
            finally:
                loop.finish(command)
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
        stop: threading.Event | None,
        heartbeat: Callable[[], object] | None,
    ):
        self._controller, self._read, self._write, self._heartbeat = controller, read, write, heartbeat
        self._period = period
        self._stop = stop if stop is not None else threading.Event()
        self._last: Outputs | None = None
        self.signals = StopSignals()
        self.ticks = self.overruns = 0

    def run(self, ticks: int | None) -> None:
        deadline = time.perf_counter_ns()
        while not self._is_stopped() and (ticks is None or self.ticks < ticks):
            outputs = self._controller.step(self.signals.interruptible(self._read))
            self._last = {name: value.copy() for name, value in outputs.items()}
            self.signals.interruptible(self._write, outputs, after=_HANGS)
            self.ticks += 1
            if self._heartbeat is not None:
                self.signals.interruptible(self._heartbeat, after=_HANGS)
            deadline += self._period
            late = time.perf_counter_ns() - deadline
            if late > 0:
                missed = 1 + late // self._period
                self.overruns += missed
                deadline += missed * self._period
            self._sleep_until(deadline)

    def finish(self, safe: SafeCommand) -> None:
        """Write the safe command, if one is known, then raise the error of a `safe` function.

        Signals do not interrupt this, because they only interrupt calls of `run()`.
        """
        outputs, error = safe.outputs(self._last)
        if outputs is not None:
            self._write(outputs)
        if error is not None:
            raise error

    def _is_stopped(self) -> bool:
        return self.signals.is_stopped or self._stop.is_set()

    def _sleep_until(self, deadline: int) -> None:
        """Sleep until a deadline, but not longer than a moment once the loop is stopped."""
        while (seconds := (deadline - time.perf_counter_ns()) / _NANOSECONDS) > 0:
            time.sleep(min(seconds, _LONGEST_SLEEP))
            if seconds > _LONGEST_SLEEP and self._is_stopped():
                return
