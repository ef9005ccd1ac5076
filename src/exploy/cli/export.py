"""`exploy export`: exports an environment and its actor to one file."""

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from exploy.cli import factory
from exploy.cli.check import print_diagnosis
from exploy.cli.console import output
from exploy.cli.exit_codes import FOUND
from exploy.cli.inspect import ports_table
from exploy.contract.formatting import format_rates
from exploy.errors import OutputPathError, UnregisteredStateError
from exploy.runtime.model_file import ModelFile


def run(name: str, target: Path, **options: Any) -> None:
    """Export, and print the ports of the file. Exits with 1 if the check finds errors in the environment.

    Raises:
        ExployError: If the export fails. No file is written then.
    """
    if target.is_dir():
        raise OutputPathError(f"{target} is a folder. Pass the path of a file, such as {target / 'policy.onnx'}.")
    env, actor = factory.load(name)
    from exploy.driver.environment_export import export

    console = output()
    try:
        with factory.users_code("The environment"), console.status("exporting and verifying"):
            path = export(env, actor, target, **options).path
    except UnregisteredStateError as error:
        print_diagnosis(console, error.diagnosis)
        console.print("No file was written. Use --no-strict to export anyway.", highlight=False)
        raise typer.Exit(FOUND) from None
    unchecked = "" if options.get("strict") else " The environment was not checked for missing state (--no-strict)."
    print_file(console, path, f"verified against the captured program and the live environment.{unchecked}")


def print_file(console: Console, path: Path, verified: str) -> None:
    """Print the ports of a new file, and how it was verified."""
    file = ModelFile.load(path)
    console.print(ports_table(file.contract))
    made = f"{path} ({len(file.data) / 1024:.1f} KiB): {format_rates(file.contract)}"
    console.print(escape(f"{made}; {verified}"), highlight=False, soft_wrap=True)
