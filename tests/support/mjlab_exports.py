"""mjlab's tasks for tests: episodes of one second, and actors with weights and normalisers that do something."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from exploy.environment.actor import ExportableActor
from exploy.errors import SensorBiasWarning
from exploy.simulators.mjlab import MjlabEnvironment
from exploy.simulators.mjlab.tasks import load_task
from exploy.verify.closed_loop import RunLength
from exploy.verify.evaluator import Evaluation, run_evaluation
from exploy.verify.session_wrapper import SessionWrapper
from exploy.verify.tally import Tally
from tests.support.mjlab_tasks import write_motion

CART_POLE = "Mjlab-Cartpole-Balance"
G1 = "Mjlab-Velocity-Flat-Unitree-G1"
OTHERS = (
    "Mjlab-Cartpole-Swingup",
    "Mjlab-Velocity-Rough-Unitree-G1",
    "Mjlab-Velocity-Flat-Unitree-Go1",
    "Mjlab-Velocity-Rough-Unitree-Go1",
    "Mjlab-Tracking-Flat-Unitree-G1",
    "Mjlab-Tracking-Flat-Unitree-G1-No-State-Estimation",
    "Mjlab-Lift-Cube-Yam",
    "Mjlab-Lift-Cube-Yam-Depth",
    "Mjlab-Lift-Cube-Yam-Rgb",
    "Mjlab-Multi-Cube-Seg-Yam",
)


def make_task(task: str, folder: Path, **settings: Any) -> tuple[MjlabEnvironment, ExportableActor]:
    """A task with an actor that its checkpoint could give; the settings are those of `load_task()`."""
    given = {"episode_length_s": 1.0, "seed": 0, **settings}
    if "Rough" in task:
        given |= {"sim.nconmax": 400, "sim.njmax": 1500}
    if "Tracking" in task:
        given["commands.motion.motion_file"] = str(write_motion(folder / "motion.npz"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SensorBiasWarning)
        env, actor = load_task(task, untrained=True, settings=given)
    _disturb_normalizers(actor)
    return env, actor


@dataclass(frozen=True)
class Compared:
    """The comparisons of a run, and how often the environment was reset in it."""

    tally: Tally
    steps: int
    resets: int


def compare(env: MjlabEnvironment, actor: ExportableActor, file: Path, steps: int = 100) -> Compared:
    """Step environment and file side by side, with memories that come from the file alone."""
    session = SessionWrapper(file.parent, file.name, actor=actor, optimize=False)
    resets = 0

    def count(*args: Any, **kwargs: Any) -> Any:
        nonlocal resets
        resets += 1
        return reset(*args, **kwargs)

    reset = env.env.command_manager.reset
    with mock.patch.object(env.env.command_manager, "reset", count):
        result = _evaluation(env, session, steps)
    return Compared(result.tally, result.steps, resets)


def _evaluation(env: MjlabEnvironment, session: SessionWrapper, steps: int) -> Evaluation:
    return run_evaluation(
        env,
        env.context_manager(),
        session,
        RunLength(steps),
        verbose=False,
        reseed_every=0,
        atol=1e-5,
        rtol=1e-5,
        pause_on_failure=False,
        allow_uncompared=(),
    )


def _disturb_normalizers(actor: ExportableActor) -> None:
    generator = torch.Generator().manual_seed(1)
    for module in actor.modules():
        if isinstance(getattr(module, "_mean", None), torch.Tensor):
            owner: Any = module
            owner._mean.copy_(0.2 * torch.randn(owner._mean.shape, generator=generator))
            owner._var.copy_(0.3 + 2 * torch.rand(owner._var.shape, generator=generator))
            owner._std.copy_(owner._var.sqrt())
