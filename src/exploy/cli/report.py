"""`exploy report`: writes a report about a file as one HTML page."""

from pathlib import Path
from typing import Any

import typer
from rich.progress import Progress

from exploy.cli import factory
from exploy.cli.console import mark, output
from exploy.cli.exit_codes import EXIT_CODES, FOUND
from exploy.cli.factory import TaskOptions
from exploy.errors import OutputPathError
from exploy.report.content import Content
from exploy.report.gather import from_environment, from_trace
from exploy.report.page import write
from exploy.runtime.model_file import ModelFile
from exploy.text import for_rich


def run(path: Path, name: str | None, task: TaskOptions, target: Path, steps: int, **options: Any) -> None:
    """Write a report and print its verdict. Exits with 1 if that is not good, with 3 if it is only incomplete.

    Args:
        path: The file.
        name: The factory of its environment, or the task of a simulator; None to run the trace in the file.
        task: Options of the task.
        target: The page to write.
        steps: Number of policy steps.
        **options: `atol`, `rtol` and `allow_uncompared` of the comparison with an environment.

    Raises:
        ExployError: If the file or the environment cannot be run, or the page cannot be written.
    """
    if target.exists() and path.exists() and target.samefile(path):
        raise OutputPathError(f"{target} is the policy file. Choose another path with -o.")
    content = from_trace(path) if name is None else _with_environment(path, name, task, steps, **options)
    write(content, target)
    console = output()
    console.print(
        mark(content.ok, for_rich(content.verdict), for_rich(content.verdict)), highlight=False, soft_wrap=True
    )
    console.print(for_rich(str(target)), highlight=False, soft_wrap=True)
    if not content.ok:
        raise typer.Exit(EXIT_CODES[content.result] or FOUND)


def _with_environment(path: Path, name: str, task: TaskOptions, steps: int, **options: Any) -> Content:
    ModelFile.load(path).require_onnx("A report with an environment")
    env, actor = factory.load(name, task)
    console = output()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        progress_task = progress.add_task("comparing environment and file", total=steps)
        with factory.users_code("The environment"):
            return from_environment(
                path, env, actor, steps, lambda step: progress.update(progress_task, completed=step + 1), **options
            )
