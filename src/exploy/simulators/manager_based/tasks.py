"""Registered tasks with the checkpoints of rsl_rl, alike for all simulators."""

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from exploy.errors import CheckpointError, FactoryError
from exploy.trainers.common.checkpoints import entry, load_into, load_tensors

_RENAMED = {"std": "distribution.std_param", "log_std": "distribution.log_std_param"}  # of rsl_rl 4


def require_task(task: str, known: Collection[str], library: str) -> None:
    """Refuse a task that does not exist.

    Raises:
        FactoryError: If the library has no such task; the message has the nearest names.
    """
    if task not in known:
        near = difflib.get_close_matches(task, known, n=3, cutoff=0.4) or sorted(known)
        raise FactoryError(f"{library} has no task {task!r}. Similar: {', '.join(near)}.")


def weights_of(task: str, checkpoint: str | Path | None, untrained: bool) -> dict[str, Any] | None:
    """The weights of the actor in a checkpoint; None if there is none and that is wanted.

    Raises:
        FactoryError: If there is no checkpoint, but a trained policy is wanted.
        CheckpointError: If the checkpoint cannot be read.
    """
    if checkpoint is None:
        if untrained:
            return None
        raise FactoryError(
            f"{task} needs a policy: pass the checkpoint that its training has saved (--checkpoint model.pt), or "
            "--untrained for one with random weights."
        )
    loaded = entry(load_tensors(checkpoint), checkpoint, "actor_state_dict", library="rsl_rl 4 or later")
    return {_RENAMED.get(name, name): value for name, value in loaded.items()}


def load_actor(
    model: torch.nn.Module,
    weights: Mapping[str, Any],
    checkpoint: str | Path,
    env: Any,
    task: str,
    groups: Sequence[str],
) -> None:
    """Load the weights of a checkpoint into the actor of a task.

    Raises:
        CheckpointError: If they do not fit; the message has the sizes of the groups of observations.
    """
    try:
        load_into(model, weights, checkpoint, f"the actor of {task}")
    except CheckpointError as error:
        sizes = "; ".join(f"{group} {_sizes(env.observation_manager, group)}" for group in groups)
        raise CheckpointError(
            f"{error} The task has the observations {sizes}, and {env.action_manager.total_action_dim} actions. Use a "
            "checkpoint of this task, trained with this configuration."
        ) from error


def _sizes(manager: Any, group: str) -> str:
    terms = zip(manager.active_terms[group], manager.group_obs_term_dim[group], strict=True)
    sizes = {name: tuple(size) for name, size in terms}
    listed = ", ".join(f"{name} {'x'.join(map(str, size))}" for name, size in sizes.items())
    return f"{sum(map(math.prod, sizes.values()))} ({listed})"
