"""Isaac Lab's tasks for tests: episodes of one second, and small files in place of those that lie on a server."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from isaaclab_assets.robots.anymal import ANYDRIVE_3_LSTM_ACTUATOR_CFG, ANYDRIVE_3_SIMPLE_ACTUATOR_CFG

import exploy
from exploy.environment.actor import ExportableActor
from exploy.errors import RandomizedConstantWarning
from exploy.simulators.isaaclab import IsaacLabEnvironment
from exploy.simulators.isaaclab.tasks import load_task
from tests.support.isaaclab_tasks import ground_from
from tests.support.simulator_exports import Exported, disturb_normalizers
from tests.support.small_usd import write_anymal, write_cart_pole, write_ground

CART_POLE = "Isaac-Cartpole"
FLAT = "Isaac-Velocity-Flat-AnymalD"
ROUGH = "Isaac-Velocity-Rough-AnymalD"
TORCH_MOTORS = {"sim.use_newton_actuators": False}


@contextmanager
def task_made(
    task: str, folder: Path, checkpoint: Path | None = None, **settings: Any
) -> Iterator[tuple[IsaacLabEnvironment, ExportableActor]]:
    """A task with an actor that its checkpoint could give, closed at the end; a process can have one at a time."""
    ground = write_ground(folder / "ground.usda")
    given = {"episode_length_s": 1.0, "seed": 0, **_files(task, folder, ground), **settings}
    with warnings.catch_warnings(), ground_from(ground):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RandomizedConstantWarning)
        env, actor = load_task(task, checkpoint, untrained=checkpoint is None, settings=given)
    if checkpoint is None:
        disturb_normalizers(actor)
    try:
        yield env, actor
    finally:
        env.env.close()


@contextmanager
def exported_task(task: str, folder: Path, **settings: Any) -> Iterator[Exported]:
    """A task with its exported file."""
    with task_made(task, folder, **settings) as (env, actor):
        yield env, actor, exploy.export(env, actor, folder / "policy.onnx", strict=False).path


def _files(task: str, folder: Path, ground: Path) -> dict[str, Any]:
    if task == CART_POLE:
        robot = write_cart_pole(folder / "cart_pole.usda")
        return {"scene.robot.spawn.usd_path": str(robot), "scene.ground.spawn.usd_path": str(ground)}
    settings: dict[str, Any] = {
        "scene.robot.spawn.usd_path": str(write_anymal(folder / "anymal.usda")),
        "scene.robot.actuators": dc_motors(),
        "scene.terrain.terrain_type": "plane",
        "scene.terrain.terrain_generator": None,
        "scene.terrain.visual_material": None,
        "scene.sky_light.spawn.texture_file": None,
        "commands.base_velocity.debug_vis": False,
    }
    return {**settings, "curriculum.terrain_levels": None} if task == ROUGH else settings


def dc_motors() -> dict[str, Any]:
    """ANYmal's drives as DC motors."""
    return {"legs": ANYDRIVE_3_SIMPLE_ACTUATOR_CFG}


def learned_motors(folder: Path) -> dict[str, Any]:
    """ANYmal's drives as a recurrent network, with the interface of the one on a server and random weights."""
    torch.manual_seed(0)
    path = folder / "network.pt"
    torch.jit.script(_Drive().eval()).save(str(path))
    return {"legs": ANYDRIVE_3_LSTM_ACTUATOR_CFG.replace(network_file=str(path))}


class _Drive(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(2, 8, 2, batch_first=True)
        self.out = torch.nn.Linear(8, 1)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        y, state = self.lstm(x, state)
        return 20.0 * self.out(y[:, -1]), state
