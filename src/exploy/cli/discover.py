"""`exploy discover`: finds what to register, and writes the code that does so."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from exploy.cli import factory
from exploy.cli.console import output, print_json
from exploy.cli.exit_codes import FOUND
from exploy.cli.factory import TaskOptions
from exploy.discovery.discovery import Discovery
from exploy.errors import OutputPathError
from exploy.text import for_rich


def run(
    name: str,
    task: TaskOptions,
    target: Path | None,
    outputs: Sequence[str],
    decisions: Sequence[str],
    steps: int,
    reset_within: int,
    as_json: bool,
) -> None:
    """Discover what an environment needs, print it, and write the code. Exits with 1 if something is left open.

    The code is written in any case; what is left open is a comment in it.

    Args:
        name: The factory of the environment, or the task of a simulator.
        task: Options of the task.
        target: The module to write; None to write none. An existing file is replaced.
        outputs: The values of `--output`.
        decisions: The values of `--decide`.
        steps: Number of policy steps to watch before the first reset.
        reset_within: Number of policy steps to wait for a reset.
        as_json: Print JSON.

    Raises:
        BadParameter: If a value of an option cannot be read.
        DiscoveryError: If an Output or a decision does not fit the environment.
        FactoryError: If the environment cannot be created.
        OutputPathError: If the code cannot be written.
    """
    named = _pairs("--output", "NAME=PATH, such as torque=env.torque", outputs)
    answers = _pairs("--decide", "PATH=input or PATH=constant, such as env.gains=constant", decisions, at_last=True)
    if target is not None and target.is_dir():
        raise OutputPathError(f"{target} is a folder. Pass the path of a file, such as {target / 'registration.py'}.")
    env, actor = factory.load(name, task, register=False)
    from exploy.discovery.discover import discover

    with factory.users_code("The environment"):
        discovery = discover(
            env, actor, outputs=named or None, decisions=answers, steps=steps, reset_within=reset_within
        )
    if target is not None:
        discovery.write(target)
    if as_json:
        print_json(_document(discovery))
    else:
        _print_discovery(output(), discovery, target)
    if not discovery.ok:
        raise typer.Exit(FOUND)


def _pairs(option: str, form: str, given: Sequence[str], *, at_last: bool = False) -> dict[str, str]:
    """Split the values of an option at their first "=", or at their last one.

    Raises:
        BadParameter: If a value has no name or no value, or a name occurs twice.
    """
    pairs: dict[str, str] = {}
    for item in given:
        name, separator, value = (part.strip() for part in (item.rpartition("=") if at_last else item.partition("=")))
        if not (separator and name and value) or name in pairs:
            raise typer.BadParameter(f"{option} takes {form}, once for each, got {item!r}.")
        pairs[name] = value
    return pairs


def _document(discovery: Discovery) -> dict[str, Any]:
    return {
        "ok": discovery.ok,
        "steps": discovery.steps,
        "resets": discovery.resets,
        "found": [dataclasses.asdict(item) for item in discovery.found],
        "questions": [dataclasses.asdict(item) for item in discovery.questions],
        "problems": [dataclasses.asdict(item) for item in discovery.problems],
        "constants": list(discovery.constants),
        "code": discovery.code,
    }


def _print_discovery(console: Console, discovery: Discovery, target: Path | None) -> None:
    """Print the verdict, the table, the constants, the code, and where the code was written."""
    console.print(for_rich(discovery.verdict), highlight=False, soft_wrap=True)
    console.print(discovery.table())
    if discovery.constants:
        console.print(for_rich(discovery.constants_line), highlight=False)
    console.print(f"\n{for_rich(discovery.code.rstrip(), lines=True)}", soft_wrap=True, highlight=False)
    if target is not None:
        console.print(f"\n{for_rich(str(target))}", soft_wrap=True, highlight=False)
