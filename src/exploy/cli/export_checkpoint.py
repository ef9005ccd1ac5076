"""`exploy export --from`: exports the policy in a trainer's checkpoint to one file."""

import importlib
import inspect
from pathlib import Path
from typing import Any

from exploy.backends.registry import name_for
from exploy.cli import factory
from exploy.cli.console import output
from exploy.cli.export import print_file, without_defaults_of_onnx
from exploy.cli.settings import parsed_setting
from exploy.errors import FactoryError, OutputPathError
from exploy.trainers.registry import TRAINERS, Trainer

_OPTIONS_OF_ENVIRONMENTS = (
    "--infer-memory, --allow-random, --allow-uncompared and --initial-memory only work for environments. Remove them "
    "with --from."
)


def run(
    library: str,
    checkpoint: str,
    target: Path,
    given: dict[str, Any],
    said: list[str],
    options: dict[str, Any],
    is_for_environments: bool,
) -> None:
    """Export the policy in a checkpoint, and print the ports of the file.

    Args:
        library: Name of the library, as in `exploy.trainers.registry`.
        checkpoint: Path of the checkpoint.
        target: The file to write.
        given: Values of the options `config`, `agent`, `env` and `vecnormalize`.
        said: Other arguments, as NAME=VALUE.
        options: Options that all libraries support.
        is_for_environments: Whether options were given that only work for environments.

    Raises:
        ExployError: If the export fails. No file is written then.
    """
    if target.is_dir():
        raise OutputPathError(f"{target} is a folder. Pass the path of a file, such as {target / 'policy.onnx'}.")
    if is_for_environments:
        raise FactoryError(_OPTIONS_OF_ENVIRONMENTS)
    factory.require_torch()
    trainer = TRAINERS[library]
    export_policy = trainer.export_policy()
    parameters = inspect.signature(export_policy).parameters.values()
    names = [item.name for item in parameters if item.kind is item.KEYWORD_ONLY]
    arguments = _arguments(trainer, given, said)
    from exploy.driver.policy_export import ExportOptions

    for name in ("obs_names", "action_names"):
        options[name] = [text.strip() for text in options[name].split(",")] if options[name] is not None else None
    options |= {name: arguments.pop(name) for name in list(arguments) if name in ExportOptions.__annotations__}
    options = {"backend": name_for(target)} | without_defaults_of_onnx(target, options)
    unknown = [name for name in arguments if name not in names]
    if unknown:
        raise FactoryError(f"{library} does not take {', '.join(unknown)}. It takes: {', '.join(names) or 'nothing'}.")
    console = output()
    with factory.users_code("The checkpoint"), console.status("exporting and verifying"):
        path = export_policy(checkpoint, target, **arguments, **options)
    print_file(console, path, "verified against the policy.")


def _arguments(trainer: Trainer, given: dict[str, Any], said: list[str]) -> dict[str, Any]:
    """Arguments for the library's export_policy(), from the options of the command line."""
    arguments: dict[str, Any] = dict(map(parsed_setting, said))
    arguments |= {name: str(given[name]) for name in ("config", "vecnormalize") if given[name] is not None}
    if given["agent"] is not None:
        found = factory.find(given["agent"])
        with factory.users_code(f"{given['agent']}()"):
            arguments[trainer.agent or "agent"] = found() if trainer.makes_agent else found
    if given["env"] is not None:
        arguments |= _from_environment(given["env"], trainer.env)
    return arguments


def _from_environment(name: str, wanted: tuple[str, ...]) -> dict[str, Any]:
    """The environments or their spaces, depending on the library."""
    if not wanted:
        raise FactoryError("This library does not use spaces. Remove --env.")
    gymnasium = importlib.import_module("gymnasium")
    with factory.users_code(f"The environment {name}"):
        make = factory.find(name) if ":" in name else lambda: gymnasium.make(name)
        if "envs" in wanted:
            return {"envs": gymnasium.vector.SyncVectorEnv([make])}
        env = make()
    return {key: getattr(env, key) for key in wanted}
