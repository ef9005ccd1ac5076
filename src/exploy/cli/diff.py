"""`exploy diff`: shows the differences between two files that matter for the robot code."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from exploy.cli.console import output, print_json
from exploy.cli.exit_codes import FOUND
from exploy.runtime import Controller
from exploy.text import for_rich
from exploy.verify.file_diff import Change, FileDiff, compare_files


def run(old: Path, new: Path, as_json: bool, allow_code: bool) -> None:
    """Compare two files and print the differences. Exits with 1 if the interface differs.

    Raises:
        ContractError: If one of them is not an exported file.
    """
    found = compare_files(*(Controller.load(path, allow_code=allow_code) for path in (old, new)))
    if as_json:
        print_json(_document(found))
    else:
        _print(found)
    if found.interface:
        raise typer.Exit(FOUND)


def _document(found: FileDiff) -> dict[str, Any]:
    return {
        "interface": [dataclasses.asdict(change) for change in found.interface],
        "other": [dataclasses.asdict(change) for change in found.other],
        "behaviour": {
            trace: None if distances is None else {name: _number(error) for name, error in distances.items()}
            for trace, distances in found.behaviour.items()
        },
    }


def _number(error: float) -> float | str:
    """A distance as a JSON number; NaN and infinity as a string."""
    return error if math.isfinite(error) else str(error)


def _print(found: FileDiff) -> None:
    console = output()
    if found.interface:
        console.print("[red]The interface differs[/]: the robot code must be adapted.")
        console.print(_table(found.interface))
    else:
        console.print("[green]The interface is the same[/]: ports, names, order, limits, gains, stop values and rates.")
    if found.other:
        console.print("Other changes:")
        console.print(_table(found.other))
    for trace, distances in found.behaviour.items():
        if distances is None:
            console.print(f"On the {trace}: not comparable.", highlight=False)
        else:
            worst = ", ".join(f"{name} {error:.3g}" for name, error in distances.items())
            console.print(
                f"On the {trace}, outputs differ by at most: {for_rich(worst)}", highlight=False, soft_wrap=True
            )


def _table(changes: list[Change]) -> Table:
    table = Table("what", "old", "new")
    for change in changes:
        table.add_row(for_rich(change.what), for_rich(_shown(change.old)), for_rich(_shown(change.new)))
    return table


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
