"""Measures the tick durations of a file on this machine."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from exploy.runtime.controller import Controller
from exploy.runtime.guards.guards import Guards
from exploy.runtime.guards.rate_watch import validated_rate


@dataclass(frozen=True)
class Latencies:
    """Durations of ticks with and without the policy, in microseconds."""

    policy: np.ndarray
    sub_step: np.ndarray


def measure(
    path: str | Path, ticks: int, hz: float | None = None, threads: int = 1, *, allow_code: bool = False
) -> Latencies:
    """Tick a file as fast as possible, or at `hz`. The inputs are those of its trace, or zeros if it has none.

    `allow_code` runs compiled code in the file even if no trusted key has signed it.

    Raises:
        ContractError: If the file cannot be run.
        RuntimeInputError: If an option is invalid.
    """
    guards = Guards(limits="off", finite="off")
    controller = Controller.load(path, threads=threads, guards=guards, allow_code=allow_code)
    pause = 0.0 if hz is None else 1 / validated_rate(hz, controller.contract, of_the_file=False)
    trace = controller.contract.trace
    values = trace.input_arrays() if trace is not None else {}
    for name, buffer in controller.inputs.items():
        buffer[...] = values[name][0] if name in values else 0
    durations = np.empty(ticks)
    deadline = time.perf_counter()
    for tick in range(ticks):
        if pause:
            deadline += pause
            time.sleep(max(0.0, deadline - time.perf_counter()))
        start = time.perf_counter_ns()
        controller.tick()
        durations[tick] = (time.perf_counter_ns() - start) / 1e3
    is_policy_step = np.arange(ticks) % controller.contract.decimation == 0
    return Latencies(durations[is_policy_step], durations[~is_policy_step])
