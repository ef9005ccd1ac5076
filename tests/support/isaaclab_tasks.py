"""Real tasks of Isaac Lab on Newton and the CPU; only what lies on a server is replaced by small files."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import isaaclab.sim as sim_utils
import isaaclab_tasks  # noqa: F401 - registers the tasks
from isaaclab.envs import ManagerBasedRLEnv
from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG
from isaaclab_tasks.core.velocity.config.anymal_d.rough_env_cfg import AnymalDRoughEnvCfg

from tests.support.small_usd import write_anymal, write_ground


def make_rough_anymal(num_envs: int = 1) -> Any:
    """ANYmal D on rough terrain, with a height scan; the terrain is a plane."""
    config: Any = AnymalDRoughEnvCfg()
    config.scene.terrain.terrain_type, config.scene.terrain.terrain_generator = "plane", None
    config.curriculum.terrain_levels = None
    return make_anymal(config, num_envs)


def make_anymal(config: Any, num_envs: int = 1) -> Any:
    """The environment of a configuration for ANYmal D, with DC motors, after a reset."""
    config.sim.device, config.scene.num_envs, config.seed = "cpu", num_envs, 1
    config.sim.use_newton_actuators = False
    config.scene.robot.actuators = {"legs": ANYDRIVE_3_SIMPLE_ACTUATOR_CFG}
    config.scene.terrain.visual_material = None
    config.scene.sky_light.spawn.texture_file = None
    config.commands.base_velocity.debug_vis = False
    config.sim.physics = getattr(config.sim.physics, "newton_mjwarp", config.sim.physics)
    config.sim.physics.use_cuda_graph = False
    with tempfile.TemporaryDirectory() as folder, ground_from(write_ground(Path(folder) / "ground.usda")):
        config.scene.robot.spawn.usd_path = str(write_anymal(Path(folder) / "anymal.usda"))
        env = ManagerBasedRLEnv(config)
        env.reset()
        return env


@contextlib.contextmanager
def ground_from(path: Path) -> Iterator[None]:
    """Make the planes of terrains from a file, in place of one on a server."""
    init = sim_utils.GroundPlaneCfg.__init__

    def from_file(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.usd_path = str(path)

    with mock.patch.object(sim_utils.GroundPlaneCfg, "__init__", from_file):
        yield
