"""A small robot with named joints, limits and gains, whose actuators are some of its joints in another order."""

from collections.abc import Mapping
from typing import Any

import torch

from exploy.exporter.core.components import Group, Input, Memory, Output
from tests.support.environments import TestEnvironment

JOINTS = ["hip", "knee", "ankle", "toe"]
ACTUATORS = ["toe", "hip", "knee"]
STIFFNESS = [10.0, 20.0, 30.125]
DAMPING = [0.1, 0.2, 0.3]
SIM_DT = 0.005


class Robot(TestEnvironment):
    """Joint positions, velocities and a command in; filtered joint targets out; the last actions are a memory."""

    num_actions = 3
    num_observations = 13
    sources: Mapping[str, str] = {}  # where inputs come from on a robot, by their short names

    def __init__(self, decimation: int = 4, reset_every: int = 37):
        super().__init__(decimation, reset_every)
        self.pos = torch.tensor([[0.1, -0.2, 0.3, -0.4]])
        self.vel = torch.zeros(1, 4)
        self.command = torch.tensor([[0.5, -0.5]])
        self.last = torch.zeros(1, 3)
        self.filtered = torch.zeros(1, 3)
        limits = [[-9.0, 9.0], [-9.0, 9.0], [-9.0, 9.0], [-8.0, 8.0]]
        manager = self.context_manager()
        manager.add_group(
            Group(
                "joints",
                [
                    Input("pos", lambda: self.pos, metadata=self._told("pos", unit="rad", limits=limits)),
                    Input("vel", lambda: self.vel, metadata=self._told("vel", unit="rad/s", kind="joint_velocity")),
                ],
                metadata={"joint_names": JOINTS},
            )
        )
        manager.add_component(
            Input(
                "cmd",
                lambda: self.command,
                metadata=self._told("cmd", ranges={"forward": [-1.0, 1.0], "turn": [-2.0, 2.0]}),
            )
        )
        manager.add_component(
            Output(
                "joint_targets",
                lambda: self.filtered,
                metadata={
                    "kind": "joint_position_target",
                    "names": ACTUATORS,
                    "stiffness": STIFFNESS,
                    "damping": DAMPING,
                    "limits": [-50.0, 50.0],
                },
            )
        )
        manager.add_components([Memory("last", lambda: self.last), Memory("filtered", lambda: self.filtered)])

    def _told(self, name: str, **metadata: Any) -> dict[str, Any]:
        return metadata | ({"source": self.sources[name]} if name in self.sources else {})

    def observe(self) -> torch.Tensor:
        return torch.cat([self.pos, self.vel, self.command, self.last], dim=-1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last[:] = actions
        self.targets[:] = 0.5 * actions + self.pos[:, [3, 0, 1]]

    def apply_actions(self) -> None:
        self.filtered[:] = self.filtered + 0.3 * (self.targets - self.filtered) - 0.01 * self.vel[:, [3, 0, 1]]

    def move(self) -> None:
        self.vel += self.noise(self.vel)
        self.vel *= 0.9
        self.pos[:] = (self.pos + 0.05 * self.vel).clamp(-3.0, 3.0)
        self.command[:] = torch.tensor([[0.5, -0.5]]) + self.noise(self.command).clamp(-0.3, 0.3)

    def restart(self) -> None:
        self.pos[:] = torch.tensor([[0.1, -0.2, 0.3, -0.4]])
        for state in (self.vel, self.last, self.filtered, self.targets):
            state.zero_()

    def metadata(self):
        return {"env_name": "Robot", "sim_dt": SIM_DT}


class RobotInSimulation(Robot):
    """The same robot; its velocities are estimated, and its positions are known by the simulator alone."""

    sources: Mapping[str, str] = {"pos": "simulator", "vel": "estimated"}
