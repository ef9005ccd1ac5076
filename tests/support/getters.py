"""Robots whose state is in arrays of a simulator, which they read through calls that return a new tensor each time."""

from typing import Any

import numpy as np
import torch

from exploy.exporter.core.components import Input, Memory, Output
from tests.support.builds import Body


class Simulator:
    """In the manner of Genesis: getters with and without arguments, and a property that is computed on read."""

    def __init__(self) -> None:
        self.qpos = np.array([0.1, 0.2])
        self.qvel = np.array([0.3, -0.1])

    def get_dofs_position(self, dofs: list[int] | None = None) -> torch.Tensor:
        return torch.as_tensor(self.qpos.copy(), dtype=torch.float32)[None][:, dofs if dofs is not None else [0, 1]]

    @property
    def vel(self) -> torch.Tensor:
        return torch.as_tensor(self.qvel.copy(), dtype=torch.float32)[None]


class Getters(Body):
    """Reads its simulator through calls, in all stages; the order of its motors is not that of the simulator."""

    motors = (1, 0)

    def setup(self) -> None:
        self.sim = Simulator()
        self.order = list(self.motors)
        self.filtered = torch.zeros(1, 2)

    @property
    def pos(self) -> torch.Tensor:
        return self.sim.get_dofs_position(self.order)

    @pos.setter
    def pos(self, value: torch.Tensor) -> None:
        pass

    @property
    def vel(self) -> torch.Tensor:
        return self.sim.vel

    @vel.setter
    def vel(self, value: torch.Tensor) -> None:
        pass

    def components(self) -> list[Any]:
        return [*self.inputs(), Output("targets", lambda: self.targets), Memory("filtered", lambda: self.filtered)]

    def inputs(self) -> list[Input]:
        return [
            Input("q", call=(self.sim, "get_dofs_position", [1, 0])),
            Input("all", call=(self.sim, "get_dofs_position")),
            Input("v", call=(self.sim, "vel")),
        ]

    def observe(self) -> torch.Tensor:
        self.filtered[:] = 0.5 * self.filtered + self.sim.get_dofs_position(dofs=[1, 0])
        fresh = self.sim.vel
        fresh += self.sim.get_dofs_position()  # its own tensor, which it may write to
        return torch.cat([self.filtered, fresh], -1)

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = actions - self.pos

    def move(self) -> None:
        self.sim.qpos += 0.1 * self.sim.qvel + 0.01 * self.targets[0].numpy()
        self.sim.qvel = 0.9 * self.sim.qvel + 0.1 * torch.randn(2, generator=self._noise).numpy()

    def restart(self) -> None:
        self.sim.qpos[:] = 0.3
        self.sim.qvel = np.zeros(2)
        self.filtered[:] = 0


class Callbacks(Getters):
    """The same with callbacks, which return tensors that the environment does not read."""

    def inputs(self) -> list[Input]:
        return [
            Input("q", lambda: self.sim.get_dofs_position(self.order)),
            Input("all", lambda: self.sim.get_dofs_position()),
            Input("v", self.velocity),
        ]

    def velocity(self) -> torch.Tensor:
        return self.sim.vel
