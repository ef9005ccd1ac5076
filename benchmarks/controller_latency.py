"""Measures the duration of a tick: the controller against direct use of onnxruntime and against eager torch.

All candidates run the same file in one process with one thread, in interleaved rounds. Direct use of onnxruntime runs
the graph of the file and feeds no memories back. The last line shows new processes: time to first action, and memory.
"""

import contextlib
import io
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.export_time import tutorial
from benchmarks.lstm_actor import LstmActor
from benchmarks.mlp_environment import NUM_ACTIONS, NUM_OBSERVATIONS, MlpEnvironment, make_network
from exploy.exporter.core.actor import add_actor_memory
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.runtime import Controller, Guards
from exploy.runtime.model_file import ModelFile
from exploy.runtime.onnx.session import open_session

ROUNDS, WARM_UP_CYCLES, CYCLES, PACED_TICKS = 40, 5, 50, 2000
COLD_START = """
import time
start = time.perf_counter()
import sys
import numpy as np
from exploy.runtime import Controller
controller = Controller.load(sys.argv[1])
controller.step({name: np.zeros_like(buffer) for name, buffer in controller.inputs.items()})
seconds = time.perf_counter() - start
resident = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, int(resident.split()[1]) / 1024)
"""

GUARDED, UNGUARDED = "step() all guards on", "step() all guards off"

Ticks = Callable[[int], object]  # runs one tick; the argument is its phase in the policy period


def models() -> dict[str, tuple[Any, torch.nn.Module]]:
    """The environments and actors to measure."""
    lstm_env, lstm = MlpEnvironment(), LstmActor(NUM_OBSERVATIONS, NUM_ACTIONS).eval()
    add_actor_memory(lstm_env.context_manager(), lstm.get_state)
    return {"tutorial": tutorial(), "MLP": (MlpEnvironment(), make_network()), "LSTM": (lstm_env, lstm)}


def by_hand(path: Path) -> tuple[Ticks, Ticks]:
    """Direct use of onnxruntime: `session.run` with a dictionary, and a run with buffers that are bound once."""
    session = open_session(path)
    arrays = {
        item.name: np.zeros(item.shape, np.int32 if item.type == "tensor(int32)" else np.float32)
        for item in (*session.get_inputs(), *session.get_outputs())
    }
    feeds, bindings = [], []
    for phase in (0, 1):
        inputs = {item.name: arrays[item.name] for item in session.get_inputs()}
        inputs["ctx.step_count"] = np.array(phase, dtype=np.int32)
        feeds.append(inputs)
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for item in session.get_outputs():
            array = arrays[item.name]
            binding.bind_output(item.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        bindings.append(binding)
    run, run_bound = session.run, session.run_with_iobinding
    return lambda phase: run(None, feeds[phase > 0]), lambda phase: run_bound(bindings[phase > 0])


def by_controller(path: Path) -> tuple[Ticks, Ticks]:
    """`tick()` with inputs already set, and `step()` with a dictionary, both with the default guards."""
    ticked, stepped = Controller.load(path), Controller.load(path)
    for buffer in ticked.inputs.values():
        buffer.fill(0)
    values = {name: np.zeros_like(buffer) for name, buffer in stepped.inputs.items()}
    return lambda phase: ticked.tick(), lambda phase: stepped.step(values)


class PacedClock:
    """A clock that advances by one period per tick, so that an armed controller sees its rate."""

    def __init__(self, hz: float):
        self._period = round(1e9 / hz)
        self.now = 0

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return self.now

    def next(self) -> None:
        """Advance to the next tick."""
        self.now += self._period


def with_and_without_guards(path: Path) -> tuple[Ticks, Ticks]:
    """`step()` with all guards on and the rate armed, and `step()` with all guards off."""

    def stepped(guards: Guards, is_armed: bool) -> Ticks:
        hz = ModelFile.load(path).contract.hz or 200.0
        clock = PacedClock(hz)
        controller = Controller.load(path, guards=guards, clock=clock, hz=hz if is_armed else None)
        values = {name: np.zeros_like(buffer) for name, buffer in controller.inputs.items()}

        def tick(phase: int) -> None:
            controller.step(values)
            clock.next()

        return tick

    return stepped(Guards(), True), stepped(Guards.off(), False)


def by_torch(env: Any, actor: torch.nn.Module) -> Ticks:
    """The environment code and the actor in torch."""

    def tick(phase: int) -> None:
        with torch.inference_mode():
            if phase == 0:
                env.process_actions(actor(env.compute_observations()))
            env.apply_actions()

    return tick


def measure(candidates: dict[str, Ticks], decimation: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Durations of policy steps and sub-steps in microseconds, from interleaved rounds."""
    times: dict[str, list[list[int]]] = {name: [[], []] for name in candidates}
    clock = time.perf_counter_ns
    for _ in range(ROUNDS):
        for name, tick in candidates.items():
            for phase in [*range(decimation)] * WARM_UP_CYCLES:  # the caches hold data of the previous candidate
                tick(phase)
            for phase in [*range(decimation)] * CYCLES:
                start = clock()
                tick(phase)
                times[name][phase > 0].append(clock() - start)
    return {name: (np.array(policy) / 1e3, np.array(sub) / 1e3) for name, (policy, sub) in times.items()}


def paced(path: Path) -> np.ndarray:
    """Durations of controller ticks in microseconds, at 1000 ticks per second."""
    controller = Controller.load(path)
    for buffer in controller.inputs.values():
        buffer.fill(0)
    durations, deadline = [], time.perf_counter()
    for _ in range(PACED_TICKS):
        deadline += 0.001
        time.sleep(max(0.0, deadline - time.perf_counter()))
        start = time.perf_counter_ns()
        controller.tick()
        durations.append(time.perf_counter_ns() - start)
    return np.array(durations) / 1e3


def print_model(name: str, times: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    print(f"\n{name:24} {'policy step p50':>16} {'p99':>8} {'sub-step p50':>16} {'p99':>8}   (µs)")
    for candidate, samples in times.items():
        p50, p99 = ([float(np.percentile(sample, share)) for sample in samples] for share in (50, 99))
        print(f"{candidate:24} {p50[0]:16.1f} {p99[0]:8.1f} {p50[1]:16.1f} {p99[1]:8.1f}")
    medians = {candidate: [np.median(sample) for sample in samples] for candidate, samples in times.items()}
    for ours, other, limit in (
        ("tick()", "IoBinding by hand", 1.10),
        ("tick()", "session.run by hand", 1.0),
        ("step()", "session.run by hand", 1.0),
        (GUARDED, UNGUARDED, 1.5),
    ):
        ratios = [ours_time / other_time for ours_time, other_time in zip(medians[ours], medians[other], strict=True)]
        print(f"{ours} / {other}: {ratios[0]:.2f} and {ratios[1]:.2f} (limit {limit:.2f})")


def main() -> None:
    """Measure and print the tables."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp())
    paths = {}
    print(f"Median and 99th percentile of {ROUNDS} interleaved rounds of {CYCLES} policy periods")
    for name, (env, actor) in models().items():
        with contextlib.redirect_stdout(io.StringIO()):
            paths[name] = export_environment_as_onnx(env, actor, folder, name)
        run, bound = by_hand(paths[name])
        tick, step = by_controller(paths[name])
        guarded, unguarded = with_and_without_guards(paths[name])
        candidates = {
            "session.run by hand": run,
            "IoBinding by hand": bound,
            "tick()": tick,
            "step()": step,
            GUARDED: guarded,
            UNGUARDED: unguarded,
            "eager torch": by_torch(env, actor),
        }
        print_model(name, measure(candidates, env.decimation))
    durations = paced(paths["MLP"])
    print(f"\nMLP, tick() paced at 1 kHz: p50 {np.median(durations):.1f} µs, p99 {np.percentile(durations, 99):.1f} µs")
    starts = [
        subprocess.run([sys.executable, "-c", COLD_START, paths["MLP"]], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    seconds, resident = np.median([[float(word) for word in start.stdout.split()] for start in starts], axis=0)
    print(f"MLP, cold start to the first action: {seconds:.2f} s (limit 0.5), {resident:.0f} MB resident (limit 100)")


if __name__ == "__main__":
    main()
