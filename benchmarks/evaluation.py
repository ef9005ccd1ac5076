"""Measures an evaluation of the demo against stepping its environment with the actor alone, in interleaved rounds."""

import tempfile
import warnings
from pathlib import Path

import torch

from benchmarks.export_time import measure
from exploy.demo.cart_pole import CartPole
from exploy.demo.exportable import ExportableCartPole
from exploy.demo.policy import load_trained_actor
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper

STEPS = 500


def main() -> None:
    """Measure and print the ratio."""
    warnings.simplefilter("ignore")
    env, actor = ExportableCartPole(CartPole(seed=1)), load_trained_actor()
    with tempfile.TemporaryDirectory() as folder:
        export_environment_as_onnx(env, actor, Path(folder))
        session = SessionWrapper(folder, "policy.onnx", actor=actor, optimize=False)

        def evaluated() -> None:
            evaluate(env, env.context_manager(), session, STEPS, verbose=False, pause_on_failure=False)

        def alone() -> None:
            observations = env.observations_reset()
            with torch.no_grad():
                for _ in range(STEPS):
                    observations, _ = env.step(actor(observations))

        times = measure({"evaluate": evaluated, "step alone": alone})
    ratio = times["evaluate"] / times["step alone"]
    print(f"evaluate() of the demo, {STEPS} policy steps: {times['evaluate']:.2f} s, {ratio:.1f} times its steps alone")


if __name__ == "__main__":
    main()
