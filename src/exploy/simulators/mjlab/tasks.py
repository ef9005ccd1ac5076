"""The registered tasks of mjlab, with the actors that its runners train."""

import dataclasses
import difflib
import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from exploy.environment.actor import ExportableActor
from exploy.errors import CheckpointError, FactoryError
from exploy.simulators.mjlab.environment import MjlabEnvironment
from exploy.simulators.task_settings import apply_settings
from exploy.trainers.common.checkpoints import entry, load_into, load_tensors
from exploy.trainers.rsl_rl import actor_from_runner

_RENAMED = {"std": "distribution.std_param", "log_std": "distribution.log_std_param"}  # of rsl_rl 4


def load_task(
    task: str,
    checkpoint: str | Path | None = None,
    *,
    untrained: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> tuple[MjlabEnvironment, ExportableActor]:
    """Make the environment of a task for one robot on the CPU, as for playing, and the actor of a checkpoint.

    Args:
        task: The name of the task.
        checkpoint: A file that the runner of the task has saved. Only tensors and plain values are read from it.
        untrained: Without a checkpoint, take an actor with random weights.
        settings: Changes of the environment's configuration, such as `{"commands.motion.motion_file": "walk.npz"}`.

    Raises:
        FactoryError: If mjlab is not installed, there is no such task or setting, or a checkpoint is missing.
        CheckpointError: If the checkpoint cannot be read or is of another task.
        InvalidEnvironmentError, CaptureError: If the environment cannot be exported; see `MjlabEnvironment`.
    """
    registry = _registry(task)
    if checkpoint is None and not untrained:
        raise FactoryError(
            f"{task} needs a policy: pass the checkpoint that its training has saved (--checkpoint model.pt), or "
            "--untrained for one with random weights."
        )
    weights = _weights(checkpoint) if checkpoint is not None else None
    configuration = registry.load_env_cfg(task, play=True)
    configuration.scene.num_envs = 1
    apply_settings(configuration, settings or {})
    env = importlib.import_module("mjlab.envs").ManagerBasedRlEnv(configuration, device="cpu")
    runner = _runner(env, task, registry)
    groups = tuple(runner.cfg["obs_groups"]["actor"])
    if checkpoint is not None and weights is not None:
        _load(runner.alg.get_policy(), weights, checkpoint, env, task, groups)
    return MjlabEnvironment(runner.env, groups), actor_from_runner(runner)


def _registry(task: str) -> Any:
    """mjlab's registry, which has the task."""
    try:
        importlib.import_module("mjlab.tasks")
        registry = importlib.import_module("mjlab.tasks.registry")
    except ImportError as error:
        raise FactoryError(f"mjlab cannot be imported ({error}). Install it: pip install 'exploy[mjlab]'") from error
    tasks = registry.list_tasks()
    if task not in tasks:
        near = difflib.get_close_matches(task, tasks, n=3, cutoff=0.4) or tasks
        raise FactoryError(f"mjlab has no task {task!r}. Similar: {', '.join(near)}.")
    return registry


def _weights(checkpoint: str | Path) -> dict[str, Any]:
    """The weights of the actor in a checkpoint."""
    loaded = entry(load_tensors(checkpoint), checkpoint, "actor_state_dict", library="rsl_rl 4 or later")
    return {_RENAMED.get(name, name): value for name, value in loaded.items()}


def _runner(env: Any, task: str, registry: Any) -> Any:
    """The runner that trains the task, with the weights that it begins with."""
    rl, configuration = importlib.import_module("mjlab.rl"), registry.load_rl_cfg(task)
    runner_class = registry.load_runner_cls(task) or rl.MjlabOnPolicyRunner
    wrapped = rl.RslRlVecEnvWrapper(env, clip_actions=configuration.clip_actions)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(configuration.seed)
        return runner_class(wrapped, dataclasses.asdict(configuration), None, "cpu")


def _load(
    model: torch.nn.Module,
    weights: Mapping[str, Any],
    checkpoint: str | Path,
    env: Any,
    task: str,
    groups: Sequence[str],
) -> None:
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
