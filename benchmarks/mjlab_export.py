"""Measures exports of a task of mjlab beside a plain export of its network, and its check.

The task is the one of the humanoid G1, with the network of its own runner. Rounds of all candidates are interleaved,
after one warm-up round each; the ratios are of medians, and of the best. Times are CPU times of one thread, so that
other work on the machine does not count. Making the environment, which captures its code once, is not a part of the
exports and is told apart. It needs mjlab, and so a venv of its own: `make bench-mjlab`.

    python -m benchmarks.mjlab_export            # all of it, some ten minutes
    python -m benchmarks.mjlab_export --quick    # the export and its network only
"""

import argparse
import contextlib
import functools
import gc
import io
import logging
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

import exploy
from benchmarks import stages
from exploy.environment.actor import ExportableActor
from exploy.simulators.mjlab import MjlabEnvironment
from exploy.simulators.mjlab.tasks import load_task

TASK = "Mjlab-Velocity-Flat-Unitree-G1"
LIMIT = 2.5
NETWORK, EXPORT, STRICT, CHECK, ADAPTER = "network alone", "export", "export with a check", "check", "adapter"
OFTEN, SELDOM, COLD = 9, 3, 2  # rounds of short and of long candidates, and first exports of processes
_SELDOM_RUN = (STRICT, CHECK, ADAPTER)
Candidates = dict[str, Callable[[], object]]


def make_task() -> tuple[MjlabEnvironment, ExportableActor]:
    """The environment of the task, and the actor of its runner with random weights."""
    return load_task(TASK, untrained=True, settings={"seed": 0})


def export_network(env: MjlabEnvironment, actor: ExportableActor, path: Path) -> None:
    """Export the network as torch does it, with its normaliser."""
    example = (env.empty_actor_observations(),)
    torch.onnx.export(actor, example, path, dynamo=True, external_data=False, verbose=False)


def candidates_of(env: MjlabEnvironment, actor: ExportableActor, folder: Path) -> Candidates:
    """What is measured, by its name."""
    actor.eval()
    return {
        NETWORK: functools.partial(export_network, env, actor, folder / "network.onnx"),
        EXPORT: functools.partial(exploy.export, env, actor, folder / "policy.onnx", strict=False),
        STRICT: functools.partial(exploy.export, env, actor, folder / "checked.onnx"),
        CHECK: functools.partial(exploy.check_environment, env, actor),
        ADAPTER: functools.partial(MjlabEnvironment, env.env, ("actor",)),
    }


def measure(candidates: Candidates) -> dict[str, list[float]]:
    """CPU seconds of each candidate in each of its rounds, which are interleaved."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for round_number in range(OFTEN + 1):
        for name, run in candidates.items():
            if round_number <= (SELDOM if name in _SELDOM_RUN else OFTEN):
                seconds = seconds_of(run)
                times[name] += [seconds] if round_number else []
    return times


def seconds_of(run: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    gc.collect()  # so that garbage of others is not measured
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        run()
    return time.process_time() - start


def cold_seconds(name: str) -> float:
    """CPU seconds of a first export in a process of its own, which has made the task and imported the packages."""
    command = [sys.executable, "-m", "benchmarks.mjlab_export", "--first", name]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(result.stdout.splitlines()[-1])


def print_times(times: Mapping[str, list[float]]) -> None:
    """Print times, and the ratios to the first of them."""
    medians, best = ({name: of(values) for name, values in times.items()} for of in (statistics.median, min))
    rounds = f"CPU time; {OFTEN} rounds, {SELDOM} of long ones"
    print(f"{TASK:32} {'median':>9} {'best':>9} {'ratio':>14} {'of the best':>12}   ({rounds})")
    for name in times:
        ratios = medians[name] / medians[NETWORK], best[name] / best[NETWORK]
        print(f"{name:32} {medians[name]:7.2f} s {best[name]:7.2f} s {ratios[0]:14.2f} {ratios[1]:12.2f}")
    print(f"export beside its network: {medians[EXPORT] / medians[NETWORK]:.2f} (limit {LIMIT})")


def print_first_exports() -> None:
    """Print the CPU seconds of the first exports of processes."""
    cold = {kind: min(cold_seconds(kind) for _ in range(COLD)) for kind in (NETWORK, EXPORT)}
    print(f"\nfirst export of a process, the best of {COLD}")
    for kind, seconds in cold.items():
        print(f"{kind:20} {seconds:7.2f} s {seconds / cold[NETWORK]:6.2f}")


def print_shares(title: str, functions: Mapping[str, Sequence[str]], run: Callable[[], object]) -> None:
    """Print the CPU seconds of each stage of a run, and of the rest."""
    with stages.timed_stages(functions) as clock:
        total = seconds_of(run)
    shares = {stage: clock.seconds[stage] for stage in functions}
    print(f"\n{title}")
    for stage, seconds in (shares | {"rest": total - sum(shares.values())}).items():
        print(f"{stage:20} {seconds:7.3f} s {seconds / total:6.0%}")


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="measure the export beside its network only")
    parser.add_argument("--first", choices=(NETWORK, EXPORT), help="measure a first export in this process")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        env, actor = make_task()
    with tempfile.TemporaryDirectory() as name:
        candidates = candidates_of(env, actor, Path(name))
        if options.first:
            print(seconds_of(candidates[options.first]))
            return
        if options.quick:
            candidates = {kind: run for kind, run in candidates.items() if kind not in _SELDOM_RUN}
        print_times(measure(candidates))
        print_shares("stages of an export", stages.EXPORT, candidates[EXPORT])
        if options.quick:
            return
        print_shares("stages of a check", stages.CHECK, candidates[CHECK])
    print_first_exports()


if __name__ == "__main__":
    main()
