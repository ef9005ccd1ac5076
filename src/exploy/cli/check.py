"""`exploy check`: finds problems that an export would have."""

import dataclasses
from collections.abc import Sequence

import typer
from rich.console import Console

from exploy.cli import factory
from exploy.cli.console import output, print_json
from exploy.cli.exit_codes import FOUND
from exploy.cli.factory import TaskOptions
from exploy.cli.initial_memory import parse
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.text import for_rich


def run(
    name: str,
    task: TaskOptions,
    steps: int,
    as_json: bool,
    initial_memory: Sequence[str],
    reset_within: int,
    lower: bool = True,
) -> None:
    """Check an environment. Exits with 1 if a finding is above info.

    Args:
        name: The factory of the environment, or the task of a simulator.
        task: Options of the task.
        steps: Number of policy steps to watch.
        as_json: Print JSON.
        initial_memory: The values of `--initial-memory`.
        reset_within: Number of policy steps to wait for a reset.
        lower: Also convert the environment to ONNX.

    Raises:
        FactoryError: If the environment cannot be created.
    """
    starts = parse(initial_memory)
    env, actor = factory.load(name, task)
    from exploy.diagnosis.check import check_environment

    with factory.users_code("The environment"):
        diagnosis = check_environment(env, actor, steps, initial_memory=starts, reset_within=reset_within, lower=lower)
    if as_json:
        findings = [dataclasses.asdict(finding) for finding in diagnosis.findings]
        print_json({"ok": diagnosis.ok, "steps": diagnosis.steps, "findings": findings})
    else:
        print_diagnosis(output(), diagnosis)
    if not diagnosis.ok:
        raise typer.Exit(FOUND)


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """Print the verdict of a check, its findings and the suggested changes."""
    console.print(for_rich(diagnosis.verdict, lines=True), highlight=False)
    if diagnosis.findings:
        console.print(diagnosis.table())
    if diagnosis.suggestions:
        console.print("Suggested changes:")
        for suggestion in diagnosis.suggestions:
            console.print(for_rich(suggestion, lines=True), soft_wrap=True, highlight=False)
