"""The registered tasks of mjlab, with the actors that its runners train."""

import dataclasses
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from exploy.environment.actor import ExportableActor
from exploy.errors import FactoryError
from exploy.simulators.manager_based.random_events import GAINS, leave_out_random_events
from exploy.simulators.manager_based.tasks import load_actor, require_task, weights_of
from exploy.simulators.mjlab.environment import MjlabEnvironment
from exploy.simulators.mjlab.motors import RANDOM_GAINS
from exploy.simulators.task_settings import apply_settings
from exploy.trainers.rsl_rl import actor_from_runner


def load_task(
    task: str,
    checkpoint: str | Path | None = None,
    *,
    untrained: bool = False,
    settings: Mapping[str, Any] | None = None,
    register: bool = True,
) -> tuple[MjlabEnvironment, ExportableActor]:
    """Make the environment of a task for one robot on the CPU, as for playing, and the actor of a checkpoint.

    Args:
        task: The name of the task.
        checkpoint: A file that the runner of the task has saved. Only tensors and plain values are read from it.
        untrained: Without a checkpoint, take an actor with random weights.
        settings: Changes of the environment's configuration, such as `{"commands.motion.motion_file": "walk.npz"}`.
            `motors` is that of `MjlabEnvironment`.
        register: Whether to register all components of the environment.

    Raises:
        FactoryError: If mjlab is not installed, there is no such task or setting, or a checkpoint is missing.
        CheckpointError: If the checkpoint cannot be read or is of another task.
        InvalidEnvironmentError, CaptureError: If the environment cannot be exported; see `MjlabEnvironment`.
    """
    settings = dict(settings or {})
    motors = bool(settings.pop("motors", False))
    registry = _registry(task)
    weights = weights_of(task, checkpoint, untrained)
    configuration = registry.load_env_cfg(task, play=True)
    configuration.scene.num_envs = 1
    apply_settings(configuration, settings)
    if motors:
        leave_out_random_events(configuration.events, RANDOM_GAINS, GAINS)
    _require_motions(task, configuration)
    env = importlib.import_module("mjlab.envs").ManagerBasedRlEnv(configuration, device="cpu")
    runner = _runner(env, task, registry)
    groups = tuple(runner.cfg["obs_groups"]["actor"])
    if checkpoint is not None and weights is not None:
        load_actor(runner.alg.get_policy(), weights, checkpoint, env, task, groups)
    return MjlabEnvironment(runner.env, groups, motors=motors, register=register), actor_from_runner(runner)


def _registry(task: str) -> Any:
    """mjlab's registry, which has the task."""
    try:
        importlib.import_module("mjlab.tasks")
        registry = importlib.import_module("mjlab.tasks.registry")
    except ImportError as error:
        raise FactoryError(f"mjlab cannot be imported ({error}). Install it: pip install 'exploy[mjlab]'") from error
    require_task(task, registry.list_tasks(), "mjlab")
    return registry


def _require_motions(task: str, configuration: Any) -> None:
    missing = [name for name, command in configuration.commands.items() if getattr(command, "motion_file", None) == ""]
    if missing:
        raise FactoryError(
            f"{task} needs the motion that it tracks: --set commands.{missing[0]}.motion_file=FILE, the file that it "
            "was trained with."
        )


def _runner(env: Any, task: str, registry: Any) -> Any:
    """The runner that trains the task, with the weights that it begins with."""
    rl, configuration = importlib.import_module("mjlab.rl"), registry.load_rl_cfg(task)
    runner_class = registry.load_runner_cls(task) or rl.MjlabOnPolicyRunner
    wrapped = rl.RslRlVecEnvWrapper(env, clip_actions=configuration.clip_actions)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(configuration.seed)
        return runner_class(wrapped, dataclasses.asdict(configuration), None, "cpu")
