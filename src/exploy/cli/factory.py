"""Loads the factory function that creates an environment and its actor."""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from exploy.cli.settings import parsed_setting
from exploy.errors import ExployError, FactoryError
from exploy.simulators.registry import SIMULATORS, task_loader

if TYPE_CHECKING:
    import torch

    from exploy.environment.exportable_environment import ExportableEnvironment


@dataclass(frozen=True)
class TaskOptions:
    """What a task of a simulator needs beside its name.

    Args:
        checkpoint: The checkpoint of the policy.
        untrained: Take a policy with random weights instead.
        settings: Changes of the configuration, as NAME=VALUE.
    """

    checkpoint: Path | None = None
    untrained: bool = False
    settings: Sequence[str] = ()

    @property
    def given(self) -> list[str]:
        """The options that were given."""
        values = {"--checkpoint": self.checkpoint, "--untrained": self.untrained, "--set": self.settings}
        return [name for name, value in values.items() if value]


def load(name: str, task: TaskOptions, *, register: bool = True) -> "tuple[ExportableEnvironment, torch.nn.Module]":
    """Call a factory given as `module:function` or `path.py:function`, or load a task given as `simulator:task`.

    Modules of the current folder can be imported. The components of a task are registered only if `register`.

    Raises:
        FactoryError: If it is not found, raises, or does not return an environment and an actor.
    """
    simulator, _, task_name = name.partition(":")
    if simulator in SIMULATORS:
        require_torch()
        settings = dict(map(parsed_setting, task.settings))
        with users_code(f"The task {name}"):
            load_task = task_loader(simulator)
            return load_task(task_name, task.checkpoint, untrained=task.untrained, settings=settings, register=register)
    if task.given:
        raise FactoryError(
            f"{', '.join(task.given)}: only for tasks of simulators, such as mjlab:TASK or isaaclab:TASK; {name} makes "
            "its own policy."
        )
    function = find(name)
    with users_code(f"{name}()"):
        result = function()
    return _validated(name, result)


def find(name: str) -> Callable[..., Any]:
    """Import the function or class given as `module:function` or `path.py:function`.

    Raises:
        FactoryError: If it is not found.
    """
    module_name, separator, attribute = name.rpartition(":")
    if not separator or not module_name or not attribute:
        raise FactoryError(f"Expected module:function, such as my_project.export:make, got {name!r}.")
    require_torch()
    function: Callable[..., Any] | None = getattr(_module(module_name), attribute, None)
    if not callable(function):
        found = "no such name" if function is None else f"{type(function).__name__}, which is not callable"
        raise FactoryError(f"{name}: expected a function in {module_name}, found {found}.")
    return function


@contextlib.contextmanager
def users_code(what: str, *, apart: bool = True) -> Iterator[None]:
    """Run user code. Exceptions, including SystemExit, become a FactoryError.

    Args:
        what: Name of the user code for the error message.
        apart: Redirect stdout of the user code to stderr.

    Raises:
        FactoryError: If it raises anything except KeyboardInterrupt or an error of exploy.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr if apart else sys.stdout):
            yield
    except (KeyboardInterrupt, ExployError):
        raise
    except BaseException as error:
        if isinstance(
            error.__context__, BrokenPipeError
        ):  # the reader of the pipe has exited; this is not an error of the user code
            raise
        raise FactoryError(f"{what} raised {type(error).__name__}: {error}") from error


def require_torch() -> None:
    """Check that torch is installed.

    Raises:
        FactoryError: If torch cannot be imported.
    """
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise FactoryError(f"Environments need torch ({error}). Install it: pip install 'exploy[export]'") from error


def _module(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    with users_code(f"Importing {name}"):
        return _from_path(Path(name)) if name.endswith(".py") else importlib.import_module(name)


def _from_path(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"file not found: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _validated(name: str, result: Any) -> "tuple[ExportableEnvironment, torch.nn.Module]":
    import torch

    from exploy.environment.exportable_environment import ExportableEnvironment

    is_pair = isinstance(result, tuple | list) and len(result) == 2
    if not is_pair or not isinstance(result[0], ExportableEnvironment) or not isinstance(result[1], torch.nn.Module):
        got = ", ".join(type(item).__name__ for item in result) if is_pair else type(result).__name__
        raise FactoryError(
            f"{name}() must return (environment, actor), an ExportableEnvironment and a torch.nn.Module; got {got}."
        )
    return result[0], result[1]
