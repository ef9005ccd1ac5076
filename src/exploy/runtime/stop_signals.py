"""Signals that stop a loop: the first one after a tick, a second one by interrupting a call that hangs."""

import atexit
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_SECONDS_AT_EXIT = 5.0  # for which the interpreter waits for a safe command

# not every system has all of them
_NAMES = ("SIGINT", "SIGTERM", "SIGQUIT", "SIGHUP", "SIGBREAK")
_DEADLY = ("SIGABRT", "SIGALRM", "SIGIO", "SIGPROF", "SIGPWR", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGXCPU")


class StopSignals:
    """Handles SIGINT, SIGTERM, SIGQUIT and SIGHUP while a loop runs, and signals that would end the process.

    The handler only sets plain attributes. It takes no lock, so a signal within a signal cannot block it. It raises
    only within `interruptible()`, and once: no further signal can interrupt what the loop does when it ends.
    """

    def __init__(self) -> None:
        self.is_stopped = False
        self._may_interrupt = False
        self._not_before = 0

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals; only the main thread can. Signals that `nohup` and the like ignore are left alone."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {}
        try:
            for number in _signals():
                before[number] = signal.signal(number, self._handle)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    @contextlib.contextmanager
    def stopped_at_exit(self) -> Iterator[None]:
        """Stop the loop of a daemon thread when the interpreter exits, and let that wait for its safe command."""
        if threading.current_thread() is threading.main_thread():
            yield
            return
        is_done = threading.Event()

        def stop() -> None:
            self.is_stopped = True
            is_done.wait(_SECONDS_AT_EXIT)

        atexit.register(stop)
        try:
            yield
        finally:
            atexit.unregister(stop)
            is_done.set()

    def interruptible(self, function: Callable[..., _Result], *arguments: Any, after: int = 0) -> _Result:
        """Call a function. The second signal of the loop raises KeyboardInterrupt in it.

        Args:
            function: The function.
            *arguments: Its arguments.
            after: Nanoseconds for which the function is not interrupted, because it would leave something half done.
        """
        self._not_before = time.perf_counter_ns() + after if after else 0
        self._may_interrupt = True
        try:
            return function(*arguments)
        finally:
            self._may_interrupt = False

    def _handle(self, number: int, frame: object) -> None:
        if self.is_stopped and self._may_interrupt and time.perf_counter_ns() >= self._not_before:
            self._may_interrupt = False
            raise KeyboardInterrupt
        self.is_stopped = True


def _signals() -> list[int]:
    """Return the signals of this system that stop a loop.

    SIGHUP does not where it is ignored. Signals for other purposes do where they would end the process.
    """
    found = {name: signal.getsignal(getattr(signal, name)) for name in (*_NAMES, *_DEADLY) if hasattr(signal, name)}
    return [
        int(getattr(signal, name))
        for name, handler in found.items()
        if (name in _NAMES or handler is signal.SIG_DFL) and not (name == "SIGHUP" and handler is signal.SIG_IGN)
    ]
