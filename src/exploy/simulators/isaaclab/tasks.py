"""The registered tasks of Isaac Lab, with the actors that rsl_rl trains."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from exploy.environment.actor import ExportableActor
from exploy.errors import FactoryError
from exploy.simulators.isaaclab.environment import CENTRES, MOVED_CENTRES, IsaacLabEnvironment
from exploy.simulators.isaaclab.motors import RANDOM_GAINS
from exploy.simulators.manager_based.random_events import GAINS, leave_out_random_events
from exploy.simulators.manager_based.tasks import load_actor, require_task, weights_of
from exploy.simulators.task_settings import apply_settings
from exploy.trainers.rsl_rl import actor_from_runner

_AGENT = "rsl_rl_cfg_entry_point"
_PHYSICS = "newton_mjwarp"


def load_task(
    task: str,
    checkpoint: str | Path | None = None,
    *,
    untrained: bool = False,
    settings: Mapping[str, Any] | None = None,
    register: bool = True,
) -> tuple[IsaacLabEnvironment, ExportableActor]:
    """Make the environment of a task, as for playing, and the actor of a checkpoint: one robot, on Newton and the CPU.

    Args:
        task: The name of the task.
        checkpoint: A file that rsl_rl's runner of the task has saved. Only tensors and plain values are read from it.
        untrained: Without a checkpoint, take an actor with random weights.
        settings: Changes of the environment's configuration, such as `{"scene.robot.spawn.usd_path": "robot.usd"}`.
            `motors` is that of `IsaacLabEnvironment`.
        register: Whether to register all components of the environment.

    Raises:
        FactoryError: If Isaac Lab is not installed, there is no such task or setting, it has no managers, cannot run
            on Newton or is not trained with rsl_rl, or a checkpoint is missing.
        CheckpointError: If the checkpoint cannot be read or is of another task.
        InvalidEnvironmentError, CaptureError: If the environment cannot be exported; see `IsaacLabEnvironment`.
    """
    settings = dict(settings or {})
    motors = bool(settings.pop("motors", False))
    _require_task(task)
    weights = weights_of(task, checkpoint, untrained)
    configuration, training = _configurations(task)
    configuration.scene.num_envs, configuration.sim.device = 1, "cpu"
    if hasattr(configuration.sim.physics, "use_cuda_graph"):
        configuration.sim.physics.use_cuda_graph = False
    apply_settings(configuration, settings)
    events = vars(configuration.events) if configuration.events is not None else {}
    leave_out_random_events(events, MOVED_CENTRES, CENTRES)
    if motors:
        leave_out_random_events(events, RANDOM_GAINS, GAINS)
    _require_no_other_environment()
    env = importlib.import_module("isaaclab.envs").ManagerBasedRLEnv(configuration)
    try:
        runner = _runner(env, training)
        groups = tuple(runner.cfg["obs_groups"]["actor"])
        if checkpoint is not None and weights is not None:
            load_actor(runner.alg.get_policy(), weights, checkpoint, env, task, groups)
        return IsaacLabEnvironment(runner.env, groups, motors=motors, register=register), actor_from_runner(runner)
    except BaseException:
        env.close()  # a process can have one environment at a time
        raise


def _require_task(task: str) -> None:
    try:
        importlib.import_module("isaaclab_tasks")
    except ImportError as error:
        raise FactoryError(
            f"Isaac Lab cannot be imported ({error}). Install it: pip install 'exploy[isaaclab]'"
        ) from error
    registry = importlib.import_module("gymnasium").registry
    require_task(task, [name for name in registry if name.startswith("Isaac")], "Isaac Lab")
    entry_point = str(registry[task].entry_point)
    if not entry_point.endswith(":ManagerBasedRLEnv"):
        raise FactoryError(
            f"{task} is not made of managers, but is a class of its own ({entry_point}). Write an "
            "ExportableEnvironment for it, and a function that returns it with the actor: "
            "exploy export my_adapter.py:make."
        )
    if _AGENT not in registry[task].kwargs:
        raise FactoryError(
            f"{task} has no configuration for rsl_rl, the library whose checkpoints are read here. Write a function "
            "that returns IsaacLabEnvironment(env, groups) and an actor: exploy export my_task.py:make."
        )


def _require_no_other_environment() -> None:
    if importlib.import_module("isaaclab.sim").SimulationContext.instance() is not None:
        raise FactoryError(
            "A process can have one environment at a time of Isaac Lab, and there is one already. Call env.close() of "
            "it first."
        )


def _configurations(task: str) -> tuple[Any, Any]:
    """The configurations of the environment, as for playing, and of the training."""
    hydra = importlib.import_module("isaaclab_tasks.utils.hydra")
    try:
        found: tuple[Any, Any] = hydra.resolve_task_config(
            task, _AGENT, play_mode=True, overrides=[f"physics={_PHYSICS}"]
        )
    except ValueError as error:
        raise FactoryError(
            f"{task} cannot run on Newton: it has no physics preset {_PHYSICS} ({error}). Isaac Sim is not supported."
        ) from error
    return found


def _runner(env: Any, training: Any) -> Any:
    """The runner that trains the task, with the weights that it begins with."""
    rsl_rl = importlib.import_module("isaaclab_rl.rsl_rl")
    version = importlib.import_module("importlib.metadata").version("rsl-rl-lib")
    training = rsl_rl.handle_deprecated_rsl_rl_cfg(training, version)
    training.device = "cpu"
    wrapped = rsl_rl.RslRlVecEnvWrapper(env, clip_actions=training.clip_actions)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(training.seed)
        return importlib.import_module("isaaclab_rl.rsl_rl.utils").create_rsl_rl_runner(wrapped, training)
