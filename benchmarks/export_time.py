"""Measures an export with verification against a plain export of the network, and a check against an export.

Rounds of all candidates are interleaved, after one warm-up round each. The result is the ratio of medians. Times are
CPU times of one thread, so that other work on the machine does not count. A table shows the share of each stage.
"""

import contextlib
import functools
import gc
import io
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import exploy
from benchmarks import stages
from benchmarks.humanoid_environment import initial_state, make_humanoid
from benchmarks.mlp_environment import NUM_OBSERVATIONS, MlpEnvironment, make_network
from exploy.exporter.core.components import Group, Input, Memory, Output
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from exploy.exporter.core.exporter import export_environment_as_onnx
from tests.support.tutorial import Actor, DataSource, Environment, ExportableEnv

ROUNDS, STAGE_ROUNDS = 7, 3
Candidates = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Model:
    """An environment with its actor, and the network of the actor with an example of its inputs."""

    env: ExportableEnvironment
    actor: torch.nn.Module
    network: torch.nn.Module
    example: tuple[torch.Tensor, ...]

    def export_network(self, path: Path) -> None:
        """Export the network as torch does it."""
        torch.onnx.export(self.network, self.example, path, dynamo=True, external_data=False, verbose=False)

    def export(self, path: Path) -> None:
        """Export environment and actor."""
        export_environment_as_onnx(self.env, self.actor, path.parent, path.name)

    def check(self) -> None:
        """Check environment and actor, which have no errors."""
        diagnosis = exploy.check_environment(self.env, self.actor)
        assert diagnosis.ok, diagnosis


def tutorial() -> tuple[ExportableEnv, Actor]:
    torch.manual_seed(0)
    env = ExportableEnv(Environment(DataSource()))
    source = env.env.data_source
    manager = env.context_manager()
    manager.add_component(Input("foo", lambda: source.foo))
    manager.add_component(Output("out", lambda: env.env._output))
    manager.add_component(Memory("actions", lambda: env.env._actions))
    manager.add_group(Group("bar_baz_group", [Input("bar", lambda: source.bar), Input("baz", lambda: source.baz)]))
    return env, Actor(num_obs=10, num_act=2).eval()


def measure(candidates: Candidates, rounds: int = ROUNDS) -> dict[str, float]:
    """Median CPU seconds of each candidate, from interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for round_number in range(rounds + 1):
        for name, run in candidates.items():
            gc.collect()  # so that garbage of the previous candidate is not measured
            start = time.process_time()
            with contextlib.redirect_stdout(io.StringIO()):
                run()
            if round_number:
                times[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def seconds_of_stages(functions: Mapping[str, Sequence[str]], run: Callable[[], object]) -> dict[str, float]:
    """Mean CPU seconds of each stage of a run, and of the rest."""
    with stages.timed_stages(functions) as clock:
        start = time.process_time()
        for _ in range(STAGE_ROUNDS):
            run()
        total = time.process_time() - start
    seconds = {stage: clock.seconds[stage] / STAGE_ROUNDS for stage in functions}
    return seconds | {"rest": total / STAGE_ROUNDS - sum(seconds.values())}


def print_stages(title: str, columns: dict[str, dict[str, float]]) -> None:
    print(f"\n{title:22}" + "".join(f"{name:>18}" for name in columns))
    for stage in next(iter(columns.values())):
        cells = [f"{times[stage]:8.3f} s {times[stage] / sum(times.values()):6.0%}" for times in columns.values()]
        print(f"{stage:22}" + "".join(f"{cell:>18}" for cell in cells))


def models() -> dict[str, Model]:
    """The environments to measure."""
    tutorial_env, tutorial_actor = tutorial()
    network = make_network()
    humanoid_env, humanoid = make_humanoid()
    return {
        "tutorial": Model(tutorial_env, tutorial_actor, tutorial_actor, (torch.zeros(1, 10),)),
        "MLP": Model(MlpEnvironment(), network, network, (torch.zeros(1, NUM_OBSERVATIONS),)),
        "G1": Model(
            humanoid_env, humanoid, humanoid.network, (humanoid_env.empty_actor_observations(), *initial_state())
        ),
    }


def print_exports(measured: Iterable[str], medians: Mapping[str, float]) -> None:
    print(
        f"{'':10} {'network alone':>15} {'exploy, verified':>18} {'ratio':>7}   (CPU time, median of {ROUNDS} rounds)"
    )
    for name in measured:
        plain, ours = medians[f"plain {name}"], medians[f"export {name}"]
        print(f"{name:10} {plain:13.2f} s {ours:16.2f} s {ours / plain:7.2f}")


def print_checks(stages_of_checks: Mapping[str, dict[str, float]], medians: Mapping[str, float]) -> None:
    print(f"\n{'':10} {'check_environment':>18} {stages.TO_A_RESET:>18} {'rest, of an export':>20}")
    for name, times in stages_of_checks.items():
        check, steps = medians[f"check {name}"], times[stages.TO_A_RESET]
        print(f"{name:10} {check:16.2f} s {steps:16.2f} s {(check - steps) / medians[f'export {name}']:20.2f}")


def main() -> None:
    """Measure and print the tables."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp())
    measured = models()
    candidates: Candidates = {}
    for name, model in measured.items():
        candidates[f"plain {name}"] = functools.partial(model.export_network, folder / f"plain_{name}.onnx")
        candidates[f"export {name}"] = functools.partial(model.export, folder / f"{name}.onnx")
        candidates[f"check {name}"] = model.check
    medians = measure(candidates)
    of_export = {name: seconds_of_stages(stages.EXPORT, candidates[f"export {name}"]) for name in measured}
    of_check = {name: seconds_of_stages(stages.CHECK, candidates[f"check {name}"]) for name in measured}
    print_exports(measured, medians)
    print_checks(of_check, medians)
    print_stages("stages of an export", of_export)
    print_stages("stages of a check", of_check)
    weights = sum(value.numel() * value.element_size() for value in measured["MLP"].network.parameters())
    size = (folder / "MLP.onnx").stat().st_size
    print(f"\nMLP file: {size} bytes, {size / weights:.4f} times the size of its weights ({weights} bytes)")


if __name__ == "__main__":
    main()
