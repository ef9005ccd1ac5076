"""The table of faults in docs/controller.md: each row is injected into a loop that runs in a process of its own.

A new row needs a line in the table and a function here, under the text of its first column.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from exploy.contract import Contract, Port
from tests.support.files import made_by_hand

ROOT = Path(__file__).parents[2]
HZ = 100
SLOW_HZ = 20  # for faults that come from outside, or that are about time


def robot_with_position_and_torque() -> bytes:
    """position = x + table[index], torque = 1 / x."""
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (1, 2), limits=(-50.0, 50.0)), Port("index", "int64", (1,))),
        outputs=(
            Port("position", "float32", (1, 2), unit="rad"),
            Port("torque", "float32", (1, 2), unit="N·m", limits=(-10.0, 10.0)),
        ),
        memories=(),
    )
    nodes = [
        helper.make_node("Gather", ["table", "index"], ["offset"]),
        helper.make_node("Add", ["x", "offset"], ["position"]),
        helper.make_node("Reciprocal", ["x"], ["torque"]),
    ]
    return made_by_hand(nodes, contract, {"table": np.zeros(3, np.float32)})


@dataclass
class Run:
    """What happened in one loop: events with their times, the error that ended it, and the guard that tripped."""

    events: list[dict[str, Any]] = field(default_factory=list)
    injected: int | None = None

    @property
    def writes(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == "write"]

    @property
    def beats(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == "beat"]

    @property
    def error(self) -> str:
        return next(event.get("error", "") for event in self.events if event["event"] == "end")

    @property
    def guard(self) -> str | None:
        return next(event["guard"] for event in self.events if event["event"] == "state")

    def stopped_within(self) -> int:
        """Commands after the fault until the first that stops the robot; all later ones must stop it too."""
        assert self.injected is not None
        before = [event for event in self.writes if event["time"] <= self.injected]
        after = [event for event in self.writes if event["time"] > self.injected]
        stopped = [is_stop(event) for event in after]
        assert any(stopped), "the robot was never stopped"
        first = stopped.index(True)
        assert all(stopped[first:])
        positions = [event["position"] for event in (*before, *after)]
        assert positions == [positions[0]] * len(positions)
        return first


def is_stop(command: dict[str, Any]) -> bool:
    return command["torque"] == [0.0, 0.0]


class LoopProcess:
    """A process that serves one scenario after another; started again after it was killed."""

    def __init__(self, path: Path):
        self._path = path
        self._process: subprocess.Popen[str] | None = None

    def start(self, fault: str = "none", hz: int = HZ, **scenario: Any) -> Iterator[dict[str, Any]]:
        """Begin a scenario and yield its events until its end, or the end of the process."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.loop_process", str(self._path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=ROOT,
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"fault": fault, "hz": hz, **scenario}) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            event = json.loads(line)
            yield event
            if event["event"] == "state":
                return
        self.close()

    def run(self, fault: str = "none", **scenario: Any) -> Run:
        """Run a scenario whose fault is injected by the process itself."""
        run = Run()
        for event in self.start(fault, **scenario):
            run.events.append(event)
            if event["event"] == "injected" and run.injected is None:
                run.injected = event["time"]
        return run

    def disturbed(self, disturb: Callable[[], None], when: str = "write", fault: str = "none", **scenario: Any) -> Run:
        """Run a scenario that is disturbed from outside, after its third event of a kind."""
        run = Run()
        for event in self.start(fault, SLOW_HZ, **scenario):
            run.events.append(event)
            of_kind = [item for item in run.events if item["event"] == when]
            if run.injected is None and len(of_kind) >= (3 if when == "write" else 1):
                run.injected = time.monotonic_ns()
                disturb()
        return run

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def close(self) -> None:
        if self._process is not None:
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                stream.close()
            self._process.wait(timeout=10)
            self._process = None


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopProcess]:
    path = tmp_path_factory.mktemp("loop") / "policy.onnx"
    path.write_bytes(robot_with_position_and_torque())
    process = LoopProcess(path)
    yield process
    process.close()


# -- faults, each by the text of its row ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What a row's test saw: the guard that tripped, and the ticks until the robot was stopped; None if it was not."""

    guard: str | None
    within: int | None


def signalled(number: int) -> Callable[[LoopProcess], Seen]:
    def inject(loop: LoopProcess) -> Seen:
        run = loop.disturbed(lambda: loop.send(number))
        assert run.error == ""
        return Seen(run.guard, run.stopped_within())

    return inject


def other_signals(loop: LoopProcess) -> Seen:
    found = [signalled(number)(loop) for number in (signal.SIGUSR1, signal.SIGXCPU)]
    return max(found, key=lambda seen: seen.within or 0)


def injected(fault: str, error: str = "FaultError", **scenario: Any) -> Callable[[LoopProcess], Seen]:
    def inject(loop: LoopProcess) -> Seen:
        run = loop.run(fault, **scenario)
        assert run.error.startswith(error), run.error
        return Seen(run.guard, run.stopped_within())

    return inject


def hanging_read(loop: LoopProcess) -> Seen:
    def twice() -> None:
        loop.send(signal.SIGTERM)
        time.sleep(0.1)  # the first one is handled, and waits for the tick to end
        loop.send(signal.SIGTERM)

    run = loop.disturbed(twice, when="injected", fault="hangs")
    assert run.error.startswith("KeyboardInterrupt")
    return Seen(run.guard, run.stopped_within())


def storm(loop: LoopProcess) -> Seen:
    run = loop.run("storm", ticks=5)
    assert run.error == "" and len([event for event in run.writes if is_stop(event)]) == 1
    return Seen(run.guard, run.stopped_within())


def killed(loop: LoopProcess) -> Seen:
    """The motors' side: without a heartbeat for three periods, the watchdog stops them."""
    crashed = loop.run("crash", hz=SLOW_HZ)
    dead = loop.disturbed(lambda: loop.send(signal.SIGKILL))
    for run in (crashed, dead):
        assert [event["event"] for event in run.events].count("end") == 0
        assert not any(is_stop(event) for event in run.writes)
        assert 2 <= len(run.beats) <= len(run.writes)
    return Seen(None, None)


def exits(loop: LoopProcess) -> Seen:
    run = loop.run("exit")
    loop.close()
    return Seen(None, run.stopped_within())


def suspended(loop: LoopProcess) -> Seen:
    def pause() -> None:
        loop.send(signal.SIGSTOP)
        time.sleep(6 / SLOW_HZ)
        loop.send(signal.SIGCONT)

    run = loop.disturbed(pause, guards={"rate": "raise"})
    assert run.error.startswith("FaultError") and "periods missed" in run.error
    return Seen(run.guard, run.stopped_within())


def late_once(loop: LoopProcess) -> Seen:
    run = loop.run("late", hz=SLOW_HZ, ticks=7, guards={"rate": "raise"})
    assert run.error == "" and [is_stop(event) for event in run.writes] == [False] * 7 + [True]
    return Seen(run.guard, None)


def slow_rate(loop: LoopProcess) -> Seen:
    run = loop.run("slow step", hz=SLOW_HZ, guards={"overrun": "raise"})
    assert "took" in run.error
    return Seen(run.guard, run.stopped_within())


def held(loop: LoopProcess) -> Seen:
    run = loop.run("NaN", guards={"finite": "hold"}, ticks=8)
    assert run.error == "" and len(run.writes) == 9 and len(run.beats) == 8
    return Seen(run.guard, run.stopped_within())


def held_over_time(loop: LoopProcess) -> Seen:
    run = loop.run("NaN", guards={"finite": "hold"}, options={"hold_for": 0.05}, ticks=20)
    torques = [event["torque"][0] for event in run.writes]
    assert torques == sorted(torques, reverse=True) and len(set(torques)) >= 4
    return Seen(run.guard, run.stopped_within())


FAULTS: dict[str, Callable[[LoopProcess], Seen]] = {
    "Ctrl-C (SIGINT)": signalled(signal.SIGINT),
    "SIGTERM": signalled(signal.SIGTERM),
    "a dropped connection (SIGHUP)": signalled(signal.SIGHUP),
    "SIGQUIT": signalled(signal.SIGQUIT),
    "a signal that would end the process (SIGUSR1, SIGXCPU)": other_signals,
    "`read` hangs, and a second signal comes": hanging_read,
    "signals during the safe command": storm,
    "SIGKILL, the OOM killer, a crash": killed,
    "the process is suspended (SIGSTOP, SIGCONT)": suspended,
    "one late wake-up": late_once,
    "steps that take longer than a period": slow_rate,
    "`read` raises": injected("read", "ConnectionError"),
    "`write` raises once": injected("write", "ConnectionError"),
    "`heartbeat` raises": injected("heartbeat", "ConnectionError"),
    "`stop` is set": injected("stop", ""),
    "the program exits, with the loop in a daemon thread": exits,
    "a missing input": injected("missing"),
    "an input of another shape": injected("shape"),
    "a NaN in an input": injected("NaN"),
    "an input outside its limits": injected("beyond limits"),
    "an input that is not refreshed": injected(
        "stale", hz=SLOW_HZ, guards={"stale": "raise"}, options={"max_age": {"x": 2.5 / SLOW_HZ, "index": 1.0}}
    ),
    "an output that is not finite": injected("division by zero"),
    "an output outside its limits": injected("output beyond limits"),
    "a step that cannot be computed": injected("index out of range"),
    "a fault of a guard set to `\"hold\"`": held,
    "the same with `hold_for=0.05`": held_over_time,
    "`on_fault` returns an output outside its limits": injected(
        "NaN",
        "RuntimeInputError: on_fault: 'torque' must be within its limits",
        guards={"finite": "call"},
        answers={"on_fault": {"torque": [99.0, 0.0]}},
    ),
    "a `safe` function that returns something else": injected(
        "read", "RuntimeInputError: safe: unknown outputs brake", answers={"safe": {"brake": 1}}
    ),
}  # fmt: skip


def rows_of_the_docs() -> dict[str, tuple[str | None, int | None]]:
    """The guard and the number of ticks of each row, by its fault."""
    text = (ROOT / "docs" / "controller.md").read_text(encoding="utf-8")
    table = re.search(r"^\| fault \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    rows = {}
    for line in table[1].splitlines():
        fault, guard, _, within = (cell.strip() for cell in line.strip("|").split("|"))
        assert fault not in rows
        rows[fault] = (guard.strip("`") or None, int(within) if within else None)
    return rows


def test_every_row_has_a_test_and_every_test_has_a_row() -> None:
    assert list(rows_of_the_docs()) == list(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_robot_sees_what_the_row_says(fault: str, loop: LoopProcess) -> None:
    guard, within = rows_of_the_docs()[fault]
    seen = FAULTS[fault](loop)
    assert seen.guard == guard
    assert (seen.within is None) == (within is None)
    assert seen.within is None or within is None or seen.within <= within
