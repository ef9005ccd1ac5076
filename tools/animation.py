"""Render the cart-pole that an exported file drives in plain MuJoCo: `python -m tools.animation FILE SCENE OUTPUT.gif`.

It runs `examples/mujoco_loop.py`, and needs Pillow and an OpenGL library for rendering without a screen, such as
Debian's libosmesa6 with `MUJOCO_GL=osmesa`. docs/simulators.md says how file and scene are made.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np
from PIL import Image

from examples.mujoco_loop import MujocoRobot, simulate
from exploy.runtime import Controller

SIZE = 480, 240
FRAMES_PER_SECOND = 20
COLOURS = 32
SECONDS = 8.0
START = {"slider": -0.9, "hinge_1": 0.35}
PUSHES = {3.0: 0.9, 5.0: -0.9}  # at a time, a force on the pole in N, for 0.1 s
PUSH_SECONDS = 0.1


class Pushed(MujocoRobot):
    """The cart-pole, which starts tilted, and whose pole is pushed."""

    def reset(self) -> None:
        """Start away from the balance."""
        super().reset()
        for joint, position in START.items():
            self.data.joint(f"cartpole/{joint}").qpos = position

    def write(self) -> None:
        """Push while a push lasts."""
        forces = [force for time, force in PUSHES.items() if time <= self.data.time < time + PUSH_SECONDS]
        self.data.body("cartpole/pole_1").xfrc_applied[0] = sum(forces)
        super().write()


def brighter(scene: Path, folder: Path) -> Path:
    """Write the scene with a bright background, and without floors and the shadows on them."""
    spec = mujoco.MjSpec.from_file(str(scene))
    white = {"rgb1": (1.0, 1.0, 1.0), "rgb2": (0.86, 0.9, 0.95)}
    sky, gradient = mujoco.mjtTexture.mjTEXTURE_SKYBOX, mujoco.mjtBuiltin.mjBUILTIN_GRADIENT
    spec.add_texture(name="sky", type=sky, builtin=gradient, width=64, height=384, **white)
    for geom in [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_PLANE]:
        spec.delete(geom)
    spec.visual.quality.shadowsize = 0
    (folder / "scene.xml").write_text(spec.to_xml())
    return folder / "scene.xml"


def frames(robot: MujocoRobot) -> Iterator[np.ndarray]:
    """Pictures at the rate of the animation."""
    every = round(1 / FRAMES_PER_SECOND / robot.model.opt.timestep)
    with mujoco.Renderer(robot.model, height=SIZE[1], width=SIZE[0]) as renderer:
        for tick, _ in enumerate(simulate(robot, SECONDS)):
            if tick % every == 0:
                renderer.update_scene(robot.data, camera=camera())
                yield renderer.render().copy()


def camera() -> mujoco.MjvCamera:
    """From the front, and a little from above."""
    view = mujoco.MjvCamera()
    view.lookat[:], view.distance, view.azimuth, view.elevation = (0.0, 0.0, 1.4), 2.7, 90.0, -8.0
    return view


def write_animation(pictures: list[np.ndarray], path: Path) -> None:
    """Write a GIF that repeats, with one table of colours for all pictures."""
    images = [Image.fromarray(picture) for picture in pictures]
    colours = Image.fromarray(np.concatenate(pictures[::20])).quantize(COLOURS, dither=Image.Dither.NONE)
    plain = [image.quantize(palette=colours, dither=Image.Dither.NONE) for image in images]
    plain[0].save(path, save_all=True, append_images=plain[1:], duration=1000 // FRAMES_PER_SECOND, loop=0)


def main() -> None:
    """Run the file, and write what it looks like."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("file", "scene", "output"):
        parser.add_argument(name, type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        robot = Pushed(Controller.load(arguments.file), brighter(arguments.scene, Path(folder)))
    write_animation(list(frames(robot)), arguments.output)
    print(f"{arguments.output}: {arguments.output.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
