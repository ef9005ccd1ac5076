"""`exploy verify`: compares a file against its environment or against its stored trace."""

from pathlib import Path
from typing import Any

import typer

from exploy.cli import factory
from exploy.cli.console import output
from exploy.cli.exit_codes import EXIT_CODES, FOUND
from exploy.cli.factory import TaskOptions
from exploy.errors import VerificationError
from exploy.runtime import Controller
from exploy.runtime.model_file import ModelFile
from exploy.text import for_rich
from exploy.verify.verdict import Verdict

_RESEED_EVERY = 50


def run(path: Path, name: str | None, task: TaskOptions, steps: int, *, allow_code: bool, **options: Any) -> None:
    """Compare and print. Exits with 1 if an output differs, and with 3 if something could not be compared.

    Args:
        path: The file.
        name: The factory of its environment, or the task of a simulator; None to run the trace in the file.
        task: Options of the task.
        steps: Number of policy steps.
        allow_code: Run compiled code in the file even if no trusted key has signed it.
        **options: `atol`, `rtol` and `allow_uncompared` of the comparison with an environment.

    Raises:
        ExployError: If the file or the environment cannot be run.
    """
    if name is None:
        _self_test(path, allow_code)
        return
    code = EXIT_CODES[_compare_with_environment(path, name, task, steps, **options)]
    if code:
        raise typer.Exit(code)


def _self_test(path: Path, allow_code: bool) -> None:
    console = output()
    controller = Controller.load(path, allow_code=allow_code)
    try:
        ticks = controller.selftest()
    except VerificationError as error:
        console.print(f"[red]differs[/]: {for_rich(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(FOUND) from None
    console.print(
        f"[green]agrees[/]: {ticks} ticks of the trace in {for_rich(str(path))} give the same results as torch.",
        highlight=False,
        soft_wrap=True,
    )


def _compare_with_environment(path: Path, name: str, task: TaskOptions, steps: int, **options: Any) -> Verdict:
    ModelFile.load(path).require_onnx("The comparison with an environment")
    env, actor = factory.load(name, task)
    Controller.load(path)  # raises before an invalid file is run
    from exploy.environment.actor import make_exportable_actor
    from exploy.verify.closed_loop import RunLength
    from exploy.verify.evaluator import run_evaluation
    from exploy.verify.session_wrapper import SessionWrapper

    session = SessionWrapper(path.parent, path.name, actor=make_exportable_actor(actor), optimize=False)
    with factory.users_code("The environment", apart=False):
        result = run_evaluation(
            env,
            env.context_manager(),
            session,
            RunLength(steps),
            verbose=True,
            reseed_every=_RESEED_EVERY,
            pause_on_failure=False,
            **options,
        )
    return result.tally.verdict
