"""The training libraries supported by `exploy export --from`. None of them is imported here."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class ExportPolicy(Protocol):
    """The `export_policy` function that the module of every library has."""

    def __call__(self, source: Any, path: str | Path, **options: Any) -> Path:
        """Export the policy of a live object or a checkpoint to one file, and return its path."""


@dataclass(frozen=True)
class Trainer:
    """A training library, and the arguments that the command line passes to its `export_policy()`.

    Args:
        module: The module with `export_policy()`.
        agent: The parameter set by `--agent`: the class of the network.
        makes_agent: Call the class without arguments and pass the result.
        env: The parameters set by `--env`: `envs` gets the environments, the others are attributes of one environment.
    """

    module: str
    agent: str | None = None
    makes_agent: bool = False
    env: tuple[str, ...] = ()

    def export_policy(self) -> ExportPolicy:
        """Import the library's module and return its `export_policy()`."""
        found: ExportPolicy = importlib.import_module(self.module).export_policy
        return found


TRAINERS = {
    "sb3": Trainer("exploy.trainers.sb3"),
    "rsl_rl": Trainer("exploy.trainers.rsl_rl"),
    "skrl": Trainer("exploy.trainers.skrl", env=("observation_space", "action_space")),
    "rl_games": Trainer("exploy.trainers.rl_games", env=("observation_space", "action_space")),
    "cleanrl": Trainer("exploy.trainers.cleanrl", agent="agent", env=("envs",)),
    "gbc": Trainer("exploy.trainers.gbc", agent="model", makes_agent=True),
}
