"""`exploy run`: replays the log of a robot."""

from pathlib import Path

import typer

from exploy.cli.console import output
from exploy.cli.exit_codes import FOUND, INCOMPLETE
from exploy.runtime import Controller, replay
from exploy.text import for_rich


def run(path: Path, log: Path, tolerance: float, allow_code: bool) -> None:
    """Replay a log and print the result. Exits with 1 if outputs differ, with 3 if ticks had to be skipped.

    Raises:
        ExployError: If the file or the log cannot be read, or the log does not fit the file.
    """
    result = replay(log, Controller.load(path, allow_code=allow_code), tolerance=tolerance)
    output().print(for_rich(str(result), lines=True), highlight=False, soft_wrap=True)
    if not result.ok:
        raise typer.Exit(INCOMPLETE if result.agrees else FOUND)
