"""Write the scene of an mjlab task for plain MuJoCo: `.venv-mjlab/bin/python -m tools.mjlab_scene TASK FOLDER`.

mjlab's own `export_scene` leaves out the options of the simulation, such as the time step, the integrator and disabled
contacts, which mjlab sets later, and the meshes of robots whose MJCF is a file.
"""

import argparse
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mjlab.tasks  # noqa: F401 - registers the tasks
from mjlab.scene import Scene
from mjlab.tasks.registry import load_env_cfg


def write_scene(cfg: Any, folder: Path) -> Path:
    """Write `scene.xml` and its meshes; return the path of `scene.xml`.

    Args:
        cfg: The configuration of the environment, a `ManagerBasedRlEnvCfg`.
        folder: Made if it does not exist.
    """
    scene = Scene(cfg.scene, device="cpu")
    cfg.sim.mujoco.apply(SimpleNamespace(opt=scene.spec.option))
    scene.write(folder)
    file = folder / "scene.xml"
    _copy_missing_meshes(scene, file)
    return file


def _copy_missing_meshes(scene: Scene, file: Path) -> None:
    sources = [Path(entity.spec.modelfiledir) / entity.spec.meshdir for entity in scene.entities.values()]
    for mesh in ElementTree.parse(file).iter("mesh"):
        name = mesh.get("file", "")
        target = file.parent / "assets" / name
        found = [source / name for source in sources if (source / name).is_file()]
        if name and found and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found[0], target)


def main() -> None:
    """Write the scene of a task with one robot, as for playing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    cfg = load_env_cfg(arguments.task, play=True)
    cfg.scene.num_envs = 1
    print(write_scene(cfg, arguments.folder))


if __name__ == "__main__":
    main()
