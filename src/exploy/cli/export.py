"""`exploy export`: exports an environment and its actor to one file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from exploy.backends.registry import name_for
from exploy.cli import factory
from exploy.cli.check import print_diagnosis
from exploy.cli.console import output
from exploy.cli.exit_codes import FOUND, INCOMPLETE
from exploy.cli.factory import TaskOptions
from exploy.cli.initial_memory import parse
from exploy.cli.inspect import print_ports
from exploy.contract.formatting import format_rates
from exploy.errors import OutputPathError, UnregisteredStateError
from exploy.runtime.model_file import ModelFile
from exploy.text import for_rich
from exploy.verify.verdict import Verdict

_DEFAULTS_OF_ONNX = {"opset_version": 20, "target_onnxruntime": None}


def run(name: str, task: TaskOptions, target: Path, initial_memory: Sequence[str], **options: Any) -> None:
    """Export, and print the ports of the file.

    Exits with 1 if a check finds errors in the environment, and with 3 if something could not be compared; the file is
    then written.

    Args:
        name: The factory of the environment, or the task of a simulator.
        task: Options of the task.
        target: The file to write.
        initial_memory: The values of `--initial-memory`.
        **options: Options of `exploy.export()`.

    Raises:
        ExployError: If the export fails; nothing is written then.
    """
    options["initial_memory"] = parse(initial_memory)
    options = without_defaults_of_onnx(target, options)
    if target.is_dir():
        raise OutputPathError(f"{target} is a folder. Pass the path of a file, such as {target / 'policy.onnx'}.")
    env, actor = factory.load(name, task)
    from exploy.driver.environment_export import export

    console = output()
    try:
        with factory.users_code("The environment"), console.status("exporting and verifying"):
            result = export(env, actor, target, **options)
    except UnregisteredStateError as error:
        print_diagnosis(console, error.diagnosis)
        console.print("No file was written. Use --no-strict to export anyway.", highlight=False)
        raise typer.Exit(FOUND) from None
    unchecked = "" if options.get("strict") else "; the environment was not checked for missing state (--no-strict)"
    print_file(console, result.path, f"{result.verification}{unchecked}")
    unknown = getattr(env, "names_unknown_to_robots", ())
    if unknown:
        line = f"Controllers of robots have no agreed name for {', '.join(unknown)}."
        console.print(for_rich(line), highlight=False, soft_wrap=True)
    if result.verification.verdict is Verdict.INCOMPLETE:
        raise typer.Exit(INCOMPLETE)


def without_defaults_of_onnx(target: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The options, without those of ONNX files that were not given if the file is another one."""
    if name_for(target) == "onnx":
        return options
    return {name: value for name, value in options.items() if _DEFAULTS_OF_ONNX.get(name, ...) != value}


def print_file(console: Console, path: Path, verified: str) -> None:
    """Print the ports of a new file, and how it was verified."""
    file = ModelFile.parse(path.read_bytes(), str(path))  # made here, so it needs no signature
    print_ports(console, file.contract)
    made = f"{path} ({len(file.data) / 1024:.1f} KiB): {format_rates(file.contract)}"
    console.print(for_rich(f"{made}; {verified}"), highlight=False, soft_wrap=True)
