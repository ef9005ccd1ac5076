"""Measures what recording costs a control loop: 500 ticks a second, beside a process that keeps one core busy.

Segments with and without a recorder alternate, so that other work on the machine meets both alike. An overrun is a tick
that ended after the next one was due.

    python -m benchmarks.loop                # ten segments of 30 s
    python -m benchmarks.loop --seconds 3    # shorter ones
    python -m benchmarks.loop --realtime     # the loop goes before all other work on the machine; needs root
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mlp_environment import MlpEnvironment, make_network
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.runtime import Controller, Guards, Recorder, load_log, serve_rate

HZ, SEGMENTS, LIMIT_PERCENT = 500, 10, 0.1
KINDS = ("without", "npz", "mcap")


@dataclass
class Measured:
    """What was seen in all segments of one kind: time between ticks in milliseconds, ticks and overruns."""

    intervals: list[np.ndarray] = field(default_factory=list)
    ticks: int = 0
    overruns: int = 0

    @property
    def percent(self) -> float:
        """Share of ticks that overran."""
        return 100 * self.overruns / max(self.ticks, 1)

    def __str__(self) -> str:
        times = np.concatenate(self.intervals)
        p50, p999 = np.percentile(times, [50, 99.9])
        return (
            f"{self.ticks:7d} ticks, overruns {self.overruns:5d} = {self.percent:.3f} %, time between ticks in ms: "
            f"p50 {p50:.3f}, p99.9 {p999:.3f}, worst {times.max():.3f}"
        )


def run_segment(controller: Controller, seconds: float, values: dict[str, Any], measured: Measured) -> None:
    """Run the loop for some time."""
    ticks = round(seconds * HZ)
    moments = np.empty(ticks + 1, dtype=np.int64)
    count = 0

    def write(outputs: object) -> None:
        nonlocal count
        moments[min(count, ticks)] = time.perf_counter_ns()
        count += 1

    safe = {name: np.zeros_like(buffer) for name, buffer in controller.outputs.items()}
    served = serve_rate(controller, lambda: values, write, hz=HZ, ticks=ticks, safe=safe)
    if served.ticks < ticks:
        raise SystemExit("interrupted")  # the loop itself takes the signal for a stop
    measured.intervals.append(np.diff(moments[: served.ticks]) / 1e6)
    measured.ticks += served.ticks
    measured.overruns += served.overruns


def recorded(controller: Controller, log: Path, run: Callable[[], None]) -> None:
    """Run with a recorder, and make sure that it has every tick."""
    with Recorder(log, controller):
        run()
    ticks = load_log(log).ticks
    if ticks != controller.ticks:
        raise SystemExit(f"{log.name} has {ticks} of {controller.ticks} ticks")
    log.unlink()


def export(folder: Path) -> Path:
    """The MLP of the other benchmarks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return export_environment_as_onnx(MlpEnvironment(), make_network(), folder, "policy", verbose=False)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of a segment")
    parser.add_argument("--segments", type=int, default=SEGMENTS)
    parser.add_argument("--format", choices=KINDS[1:], default="npz")
    parser.add_argument("--realtime", action="store_true", help="run the loop under SCHED_FIFO")
    options = parser.parse_args()
    found = {"without a recorder": Measured(), f"with a recorder ({options.format})": Measured()}
    without, with_recorder = found.values()
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with tempfile.TemporaryDirectory() as name:
            path = export(Path(name))
            controller = Controller.load(path, guards=Guards(rate="off", overrun="off", stale="off"))
            values = {name: np.zeros_like(buffer) for name, buffer in controller.inputs.items()}
            if options.realtime:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
            run_segment(controller, 1.0, values, Measured())  # warms up
            for segment in range(options.segments):
                controller.reset()
                if segment % 2 == 0:
                    run_segment(controller, options.seconds, values, without)
                else:
                    recorded(
                        controller,
                        Path(name) / f"run.{options.format}",
                        lambda: run_segment(controller, options.seconds, values, with_recorder),
                    )
    finally:
        neighbour.kill()
        neighbour.wait()
    policy = ", under SCHED_FIFO" if options.realtime else ""
    print(f"{HZ} Hz beside a busy process{policy}, {options.segments} alternating segments of {options.seconds:g} s")
    for kind, measured in found.items():
        print(f"{kind:26} {measured}")
    print(f"overruns added by recording: {with_recorder.percent - without.percent:+.3f} % (limit {LIMIT_PERCENT} %)")


if __name__ == "__main__":
    main()
