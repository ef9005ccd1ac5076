"""mjlab's tasks for tests: episodes of one second, and actors with weights and normalisers that do something."""

import warnings
from pathlib import Path
from typing import Any

import exploy
from exploy.environment.actor import ExportableActor
from exploy.errors import SensorBiasWarning
from exploy.simulators.mjlab import MjlabEnvironment
from exploy.simulators.mjlab.tasks import load_task
from tests.support.mjlab_tasks import write_motion
from tests.support.simulator_exports import Exported, disturb_normalizers

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
        warnings.filterwarnings("ignore", "MULTICCD", UserWarning)  # of MuJoCo, about rough terrain
        env, actor = load_task(task, untrained=True, settings=given)
    disturb_normalizers(actor)
    return env, actor


def export_task(task: str, folder: Path, **settings: Any) -> Exported:
    """A task, its actor, and its file, which is exported without a check."""
    env, actor = make_task(task, folder, **settings)
    return env, actor, exploy.export(env, actor, folder / "policy.onnx", strict=False).path
