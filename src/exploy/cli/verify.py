"""`exploy verify`: compares a file against its environment or against its stored trace."""

from pathlib import Path

import typer
from rich.markup import escape

from exploy.cli import factory
from exploy.cli.console import output
from exploy.cli.exit_codes import FOUND
from exploy.errors import VerificationError
from exploy.runtime import Controller
from exploy.runtime.model_file import ModelFile


def run(path: Path, name: str | None, steps: int) -> None:
    """Compare and print the result. Exits with 1 if something differs.

    Raises:
        ExployError: If the file or the environment cannot be run.
    """
    if name is None:
        _self_test(path)
    elif not _agrees_with_environment(path, name, steps):
        raise typer.Exit(FOUND)


def _self_test(path: Path) -> None:
    console = output()
    controller = Controller.load(path)
    try:
        ticks = controller.selftest()
    except VerificationError as error:
        console.print(f"[red]differs[/]: {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(FOUND) from None
    console.print(
        f"[green]agrees[/]: {ticks} ticks of the trace in {escape(str(path))} give the same results as torch.",
        highlight=False,
        soft_wrap=True,
    )


def _agrees_with_environment(path: Path, name: str, steps: int) -> bool:
    ModelFile.load(path).require_onnx("The comparison with an environment")
    env, actor = factory.load(name)
    Controller.load(path)  # rejects invalid files before they run
    from exploy.environment.actor import make_exportable_actor
    from exploy.verify.evaluator import evaluate
    from exploy.verify.session_wrapper import SessionWrapper

    session = SessionWrapper(path.parent, path.name, actor=make_exportable_actor(actor), optimize=False)
    with factory.users_code("The environment", apart=False):
        agrees, _ = evaluate(env, env.context_manager(), session, steps, pause_on_failure=False)
    return agrees
