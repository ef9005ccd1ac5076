"""mjlab's tasks for tests: episodes of one second, and actors with weights and normalisers that do something."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from exploy.environment.actor import ExportableActor
from exploy.errors import SensorBiasWarning
from exploy.simulators.mjlab import MjlabEnvironment
from exploy.simulators.mjlab.tasks import load_task
from exploy.verify.closed_loop import RunLength
from exploy.verify.evaluator import Evaluation, run_evaluation
from exploy.verify.session_wrapper import SessionWrapper
from exploy.verify.tally import Tally

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


def write_motion(path: Path, frames: int = 120) -> Path:
    """A motion of the G1: all joints swing a little around zero, the pelvis stays in the air."""
    import mujoco
    from mjlab.asset_zoo.robots import get_g1_robot_cfg

    model = get_g1_robot_cfg().spec_fn().compile()
    data = mujoco.MjData(model)
    joints = model.nq - 7
    times = np.arange(frames) * 0.02
    phase = 2.0 * times[:, None] + np.arange(joints)
    names = ("joint_pos", "joint_vel", "body_pos_w", "body_quat_w", "body_lin_vel_w", "body_ang_vel_w")
    motion: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for angles in 0.1 * np.sin(phase):
        data.qpos[:] = [0.0, 0.0, 0.8, 1.0, 0.0, 0.0, 0.0, *angles]
        mujoco.mj_forward(model, data)
        motion["body_pos_w"].append(data.xpos[1:].copy())
        motion["body_quat_w"].append(data.xquat[1:].copy())
    bodies = np.zeros((frames, model.nbody - 1, 3))
    arrays = {name: np.array(values) for name, values in motion.items() if values}
    arrays |= {"joint_pos": 0.1 * np.sin(phase), "joint_vel": 0.2 * np.cos(phase)}
    np.savez(path, **arrays, body_lin_vel_w=bodies, body_ang_vel_w=bodies)
    return path


def _disturb_normalizers(actor: ExportableActor) -> None:
    generator = torch.Generator().manual_seed(1)
    for module in actor.modules():
        if isinstance(getattr(module, "_mean", None), torch.Tensor):
            owner: Any = module
            owner._mean.copy_(0.2 * torch.randn(owner._mean.shape, generator=generator))
            owner._var.copy_(0.3 + 2 * torch.rand(owner._var.shape, generator=generator))
            owner._std.copy_(owner._var.sqrt())
