"""Measures an export with verification against a plain export of the network, and a check against an export.

Rounds of all candidates are interleaved, after one warm-up round each. The result is the ratio of medians.
"""

import contextlib
import gc
import io
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

import exploy
from benchmarks.mlp_environment import NUM_OBSERVATIONS, MlpEnvironment, make_network
from exploy.exporter.core.components import Group, Input, Memory, Output
from exploy.exporter.core.exporter import export_environment_as_onnx
from tests.support.tutorial import Actor, DataSource, Environment, ExportableEnv

ROUNDS = 7


def plain_export(network: torch.nn.Module, width: int, path: Path) -> None:
    torch.onnx.export(network, (torch.zeros(1, width),), path, dynamo=True, external_data=False, verbose=False)


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


def measure(candidates: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds of each candidate, from interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for round_number in range(ROUNDS + 1):
        for name, run in candidates.items():
            gc.collect()  # so that garbage of the previous candidate is not measured
            start = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                run()
            if round_number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Measure and print the table."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp())
    tutorial_env, tutorial_actor = tutorial()
    mlp_env, network = MlpEnvironment(), make_network()
    medians = measure(
        {
            "plain tutorial": lambda: plain_export(tutorial_actor, 10, folder / "plain_tutorial.onnx"),
            "exploy tutorial": lambda: export_environment_as_onnx(tutorial_env, tutorial_actor, folder, "tutorial"),
            "plain MLP": lambda: plain_export(network, NUM_OBSERVATIONS, folder / "plain_mlp.onnx"),
            "exploy MLP": lambda: export_environment_as_onnx(mlp_env, network, folder, "mlp"),
            "check tutorial": lambda: exploy.check_environment(tutorial_env, tutorial_actor),
            "check MLP": lambda: exploy.check_environment(mlp_env, network),
        }
    )
    print(f"{'':10} {'network alone':>15} {'exploy, verified':>18} {'ratio':>7}   (median of {ROUNDS} rounds)")
    for name in ("tutorial", "MLP"):
        plain, ours = medians[f"plain {name}"], medians[f"exploy {name}"]
        print(f"{name:10} {plain:13.2f} s {ours:16.2f} s {ours / plain:7.2f}")
    print(f"\n{'':10} {'check_environment':>18} {'of an export':>14}   (including its 20 steps)")
    for name in ("tutorial", "MLP"):
        check, export = medians[f"check {name}"], medians[f"exploy {name}"]
        print(f"{name:10} {check:16.2f} s {check / export:14.2f}")
    weights = sum(value.numel() * value.element_size() for value in network.parameters())
    size = (folder / "mlp.onnx").stat().st_size
    print(f"\nMLP file: {size} bytes, {size / weights:.4f} times the size of its weights ({weights} bytes)")


if __name__ == "__main__":
    main()
