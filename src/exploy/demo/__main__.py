"""The whole story on a cart-pole: export, verify, then let the file alone balance the pole.

Run with `python -m exploy.demo [folder]`; exits with 1 if the file differs from the environment or the pole falls.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from exploy.demo.cart_pole import CartPole
from exploy.demo.closed_loop import balance
from exploy.demo.exportable import ExportableCartPole
from exploy.demo.policy import load_trained_actor
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper

_EVALUATION_STEPS = 600
_SECONDS = 20.0


def main() -> int:
    """Run the demo and return the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m exploy.demo", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where to write policy.onnx; a new folder by default")
    folder: Path = parser.parse_args().folder or Path(tempfile.mkdtemp(prefix="exploy_demo_"))

    env, actor = ExportableCartPole(CartPole(seed=1)), load_trained_actor()

    print("1. Export environment and policy to one file")
    path = export_environment_as_onnx(env, actor, folder, verbose=True)

    print(f"\n2. Verify: environment and file side by side, {_EVALUATION_STEPS} policy steps with sub-steps")
    session = SessionWrapper(folder, path.name, actor=actor)
    agrees, _ = evaluate(env, env.context_manager(), session, _EVALUATION_STEPS, pause_on_failure=False)

    print(f"\n3. Run: {_SECONDS:.0f} s in which the file alone drives the cart-pole")
    result = balance(path, seconds=_SECONDS, seed=7)
    print(
        f"The pole {'stood' if result.stood else 'FELL'} (largest angle {result.largest_angle:.3f} rad); "
        f"the cart ended {100 * result.final_error:.1f} cm from its command."
    )

    print("\nFiles:")
    for file in [path, *sorted((folder / "debug").glob("*.onnx"))]:
        print(f"  {file}")
    return 0 if agrees and result.stood else 1


if __name__ == "__main__":
    sys.exit(main())
