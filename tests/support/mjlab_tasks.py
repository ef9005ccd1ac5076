"""Real tasks of mjlab with one robot on the CPU."""

import tempfile
from pathlib import Path
from typing import Any

import mjlab.tasks  # noqa: F401 - registers the tasks
import numpy as np
from mjlab.envs import ManagerBasedRlEnv
from mjlab.tasks.registry import load_env_cfg


def make_task(name: str) -> Any:
    """The environment of a task as it is played, after a reset."""
    cfg = load_env_cfg(name, play=True)
    cfg.scene.num_envs = 1
    if "Rough" in name:
        cfg.sim.nconmax, cfg.sim.njmax = 400, 1500
    if "Tracking" not in name:
        return _made(cfg)
    with tempfile.TemporaryDirectory() as folder:
        cfg.commands["motion"].motion_file = str(write_motion(Path(folder) / "motion.npz"))
        return _made(cfg)


def _made(cfg: Any) -> Any:
    env = ManagerBasedRlEnv(cfg, device="cpu")
    env.reset()
    return env


def write_motion(path: Path, steps: int = 200, joints: int = 29, bodies: int = 30) -> Path:
    """Write a motion for a G1 that sways in place."""
    phase = np.linspace(0, 8 * np.pi, steps, dtype=np.float32)[:, None]
    angles = 0.1 * np.sin(phase + np.arange(joints, dtype=np.float32))
    positions = np.zeros((steps, bodies, 3), np.float32)
    positions[..., 2] = 0.5 + 0.02 * np.arange(bodies)
    positions[..., 0] = 0.05 * np.sin(phase)
    orientations = np.zeros((steps, bodies, 4), np.float32)
    orientations[..., 0], orientations[..., 3] = np.cos(0.1 * np.sin(phase)), np.sin(0.1 * np.sin(phase))
    np.savez(
        path,
        fps=[50],
        joint_pos=angles,
        joint_vel=0.1 * np.cos(phase + np.arange(joints, dtype=np.float32)),
        body_pos_w=positions,
        body_quat_w=orientations,
        body_lin_vel_w=np.zeros_like(positions),
        body_ang_vel_w=np.zeros_like(positions),
    )
    return path
