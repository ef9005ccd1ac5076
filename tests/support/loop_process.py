"""A loop in a process of its own, with faults injected while it runs. Imports no torch, so it starts quickly.

    python -m tests.support.loop_process FILE

Each line of standard input is a scenario as JSON; each line of standard output is an event: a command that the robot
gets, a heartbeat, the injection of the fault, or the end of the loop.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

from exploy.errors import FaultError
from exploy.runtime import Controller, Guards, serve_rate
from tests.support.slow_backend import steps_that_wait

QUIET = {"rate": "off", "overrun": "off", "stale": "off"}  # the machines that tests run on are noisy
GOOD: dict[str, Any] = {"x": [2.0, 4.0], "index": [0]}
BAD_INPUTS: dict[str, dict[str, Any]] = {
    "NaN": {"x": [2.0, float("nan")]},
    "shape": {"x": [2.0]},
    "beyond limits": {"x": [2.0, 60.0]},
    "division by zero": {"x": [2.0, 0.0]},
    "output beyond limits": {"x": [2.0, 0.05]},
    "index out of range": {"index": [7]},
}


RUNS = threading.Event()  # set when a loop has written


class Robot:
    """Sensors and motors of a scenario, which fail at a tick."""

    def __init__(self, fault: str, at: int, period: float):
        self._fault, self._at, self._period = fault, at, period
        self._tick = 0
        self.stop = threading.Event()
        self.is_slow = False

    def inject(self) -> bool:
        """Whether the fault is there at this tick; its first tick is told."""
        if self._tick == self._at:
            say("injected")
        return self._tick >= self._at

    def read(self) -> dict[str, Any]:
        self._tick += 1
        if self._fault in ("write", "late", "heartbeat", "storm", "exit") or not self.inject():
            return GOOD
        if self._fault in BAD_INPUTS:
            return GOOD | BAD_INPUTS[self._fault]
        if self._fault in ("missing", "stale"):
            return {name: value for name, value in GOOD.items() if name != "x"}
        if self._fault == "read":
            raise ConnectionError("no bus")
        if self._fault == "hangs":
            time.sleep(100)
        if self._fault == "crash":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.abort()
        if self._fault == "stop":
            self.stop.set()
        self.is_slow = self._fault == "slow step"
        return GOOD

    def write(self, outputs: dict[str, np.ndarray]) -> None:
        if self._fault == "storm" and not outputs["torque"].any():
            say("injected")
            for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT] * 5:
                os.kill(os.getpid(), number)
        say("write", **{name: value.reshape(-1).tolist() for name, value in outputs.items()})
        RUNS.set()
        if self._fault == "write" and self.inject() and self._tick == self._at:
            raise ConnectionError("no bus")
        if self._fault == "late" and self.inject() and self._tick == self._at:
            time.sleep(1.7 * self._period)

    def beat(self) -> None:
        say("beat")
        if self._fault == "heartbeat" and self.inject():
            raise ConnectionError("no watchdog")


def say(event: str, **content: Any) -> None:
    line = json.dumps({"event": event, "time": time.monotonic_ns(), **content})
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # at once, also from two threads


def run(path: str, scenario: dict[str, Any]) -> None:
    robot = Robot(scenario["fault"], scenario.get("at", 3), 1 / scenario["hz"])
    answers: dict[str, Any] = {"on_fault": None, "safe": None} | scenario.get("answers", {})
    options = scenario.get("options", {})
    wait = lambda: time.sleep(1.5 * robot._period) if robot.is_slow else None  # noqa: E731
    with steps_that_wait(wait):
        controller = Controller.load(
            path,
            guards=Guards(**(QUIET | scenario.get("guards", {}))),
            on_fault=lambda fault: answers["on_fault"],
            **options,
        )
    safe = None if answers["safe"] is None else lambda last: answers["safe"]
    try:
        served = serve_rate(
            controller,
            robot.read,
            robot.write,
            hz=scenario["hz"],
            ticks=scenario.get("ticks", 200),
            stop=robot.stop,
            heartbeat=robot.beat,
            safe=safe,
        )
        say("end", ticks=served.ticks)
    except FaultError as error:
        say("end", error=f"FaultError: {error}")
    except BaseException as error:
        say("end", error=f"{type(error).__name__}: {error}")
    say("state", guard=controller.fault.guard.value if controller.fault is not None else None)


if __name__ == "__main__":
    for line in sys.stdin:
        scenario = json.loads(line)
        if scenario["fault"] == "exit":
            RUNS.clear()
            threading.Thread(target=run, args=(sys.argv[1], scenario), daemon=True).start()
            RUNS.wait()
            say("injected")
            break
        run(sys.argv[1], scenario)
