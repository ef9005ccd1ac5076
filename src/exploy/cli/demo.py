"""`exploy demo`: all steps from export to report, with a cart-pole."""

import tempfile
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from exploy.cli.console import mark, output
from exploy.cli.exit_codes import FOUND
from exploy.cli.factory import require_torch
from exploy.text import for_rich

_STEPS = 500
_SECONDS = 20.0


def run(folder: Path | None) -> None:
    """Export, verify, balance and report. Exits with 1 if the file differs or the pole falls.

    Raises:
        ExployError: If a package is missing, or a file cannot be written.
    """
    require_torch()
    folder = folder or Path(tempfile.mkdtemp(prefix="exploy_demo_"))
    console = output()
    console.print("Cart-pole demo: exports the environment and its trained policy to one file.", highlight=False)
    rows, is_good = _story(console, folder)
    table = Table("", "what", "result", "")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for name in ("policy.onnx", "report.html"):
        console.print(for_rich(str(folder / name)), highlight=False, soft_wrap=True)
    if not is_good:
        raise typer.Exit(FOUND)


def _story(console: Console, folder: Path) -> tuple[list[tuple[str, str, str, str]], bool]:
    """Run all steps. Return a table row for each step with its result, and whether all steps succeeded."""
    from exploy.demo.cart_pole import CartPole
    from exploy.demo.closed_loop import balance
    from exploy.demo.exportable import ExportableCartPole
    from exploy.demo.policy import load_trained_actor
    from exploy.driver.environment_export import export_environment_as_onnx
    from exploy.report.gather import from_environment
    from exploy.report.page import write
    from exploy.runtime import Controller

    env, actor = ExportableCartPole(CartPole(seed=1)), load_trained_actor()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("exporting", total=_STEPS + 40)
        path = export_environment_as_onnx(env, actor, folder)
        ticks = Controller.load(path).selftest()
        progress.update(task, completed=10, description="comparing environment and file")
        content = from_environment(path, env, actor, _STEPS, lambda step: progress.update(task, completed=10 + step))
        progress.update(task, completed=_STEPS + 10, description="balancing the pole with the file")
        ride = balance(path, seconds=_SECONDS, seed=7)
        progress.update(task, completed=_STEPS + 20, description="writing the report")
        write(content, folder / "report.html")
    worst = max(float(item.errors.max()) for item in content.outputs)
    compared = sum(len(item.ticks) for item in content.outputs)
    times = content.policy_latency, content.sub_step_latency
    policy, sub_step = (f"{float(sorted(item)[len(item) // 2]):.0f}" for item in times)
    rows = [
        (
            "1",
            "export",
            f"one file of {path.stat().st_size / 1024:.0f} KiB, verified before it was written",
            "[green]done[/]",
        ),
        ("2", "self-test without torch", f"{ticks} ticks give the same results as torch", "[green]agrees[/]"),
        (
            "3",
            f"{_STEPS} steps against the environment",
            f"{compared} comparisons, largest error {worst:.1e}",
            mark(content.ok, "agrees", "differs"),
        ),
        (
            "4",
            f"{_SECONDS:.0f} s controlled by the file alone",
            f"largest angle {ride.largest_angle:.3f} rad, {100 * ride.final_error:.1f} cm from the command",
            mark(ride.stood, "balanced", "fell"),
        ),
        ("5", "time of a tick on this machine", f"{policy} µs with the policy, {sub_step} µs without", ""),
    ]
    return rows, content.ok and ride.stood
