"""Use of a file on the robot: load it, test it, run it at its rate, record a log, and replay the log offline.

Run with `python examples/robot_loop.py`. First the cart-pole demo is exported. On a real robot the file would be copied
there, and neither torch nor the environment would be installed. The inputs come from a small simulation.
"""

import tempfile
from pathlib import Path

import numpy as np

from exploy.demo.cart_pole import CartPole
from exploy.demo.exportable import ExportableCartPole
from exploy.demo.policy import load_trained_actor
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.runtime import Controller, Guards, Recorder, replay, serve_rate


class Robot:
    """A cart with a pole. It takes the place of the hardware."""

    def __init__(self, dt: float):
        self._dt = dt
        self.cart, self.pole = np.zeros((1, 2), np.float32), np.array([[0.05, 0.0]], np.float32)

    def read(self) -> dict[str, np.ndarray]:
        """Sensor values and the command."""
        return {"cart": self.cart, "pole": self.pole, "command": np.full((1, 1), 0.3, np.float32)}

    def write(self, outputs: dict[str, np.ndarray]) -> None:
        """Apply the force and simulate one step."""
        force = float(outputs["force"][0, 0])
        (_, speed), (angle, rate) = self.cart[0], self.pole[0]
        acceleration = (force + 0.05 * rate**2 * np.sin(angle)) / 1.1
        angular = (9.81 * np.sin(angle) - acceleration * np.cos(angle)) / (
            0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
        )
        self.cart = self.cart + self._dt * np.array([[speed, acceleration]], np.float32)
        self.pole = self.pole + self._dt * np.array([[rate, angular]], np.float32)


def main() -> None:
    """Run the robot for two seconds."""
    folder = Path(tempfile.mkdtemp(prefix="exploy_robot_"))
    path = export_environment_as_onnx(ExportableCartPole(CartPole(seed=1)), load_trained_actor(), folder)

    controller = Controller.load(path, guards=Guards(rate="off", overrun="off"))  # a desktop may miss the rate
    print(f"self-test: {controller.selftest()} ticks agree with torch")
    robot = Robot(controller.contract.sim_dt or 0.005)
    with Recorder(folder / "run.npz", controller):
        served = serve_rate(controller, robot.read, robot.write, ticks=400)  # ends with a force of zero
    print(f"{served.stats}; the angle of the pole is {robot.pole[0, 0]:.3f} rad")

    result = replay(folder / "run.npz", Controller.load(path))
    print(result)
    print(f"The replay {'agrees' if result.ok else 'DIFFERS'}.")


if __name__ == "__main__":
    main()
