"""The training libraries whose checkpoints `exploy export --from` takes, a line each. Imports none of them."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class ExportPolicy(Protocol):
    """What every module of a library offers as `export_policy`."""

    def __call__(self, source: Any, path: str | Path, **options: Any) -> Path:
        """Export the policy of a live object or a checkpoint as one file, and return its path."""


@dataclass(frozen=True)
class Trainer:
    """A training library, and what the command line gives to its `export_policy()`.

    Args:
        module: The module that has it.
        agent: The parameter that `--agent` is for: the network's class.
        makes_agent: Call the class first, without arguments, and give what it returns.
        env: The parameters that `--env` is for: `envs` takes the environments, others are read from one environment.
    """

    module: str
    agent: str | None = None
    makes_agent: bool = False
    env: tuple[str, ...] = ()

    def export_policy(self) -> ExportPolicy:
        """The library's function; its module is imported now."""
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
