"""The simulators whose tasks the command line takes, as `mjlab:TASK`. None of them is imported here."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from exploy.environment.actor import ExportableActor
    from exploy.environment.exportable_environment import ExportableEnvironment


class LoadTask(Protocol):
    """The `load_task` function that the module of every simulator has."""

    def __call__(
        self,
        task: str,
        checkpoint: str | Path | None = None,
        *,
        untrained: bool = False,
        settings: Mapping[str, Any] | None = None,
        register: bool = True,
    ) -> "tuple[ExportableEnvironment, ExportableActor]":
        """Make the environment of a task and the actor of a checkpoint."""


SIMULATORS = {
    "isaaclab": "exploy.simulators.isaaclab.tasks",
    "mjlab": "exploy.simulators.mjlab.tasks",
}


def task_loader(simulator: str) -> LoadTask:
    """Import the module of a simulator and return its `load_task()`."""
    found: LoadTask = importlib.import_module(SIMULATORS[simulator]).load_task
    return found
