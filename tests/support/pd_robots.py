"""Robots with a PD law at the sub-step rate and a recurrent policy, of many strengths and precisions."""

from dataclasses import dataclass
from typing import Any

import torch

from exploy.exporter.core.actor import ExportableActor, add_actor_memory
from exploy.exporter.core.components import Input, Memory, Output
from tests.support.environments import TestEnvironment, make_actor

JOINTS = 4
START = 0.3


@dataclass(frozen=True)
class Robot:
    """What a robot is like.

    Attributes:
        strength: The size of its torques, in Nm.
        actor: "lstm", "gru", "scripted lstm", "scripted gru" or "mlp".
        decimation: Sub-steps in a policy step.
        double: What is float64: "clock", "joints" or nothing.
        hooked: Whether it calls the hooks.
    """

    strength: float
    actor: str
    decimation: int = 4
    double: str = ""
    hooked: bool = True

    def __str__(self) -> str:
        parts = [
            f"{self.strength:g}Nm",
            self.actor,
            f"{self.decimation}",
            self.double,
            "" if self.hooked else "unhooked",
        ]
        return "-".join(part.replace(" ", "_") for part in parts if part)


ROBOTS = (
    Robot(200.0, "scripted lstm"),
    Robot(0.1, "gru", double="clock", hooked=False),
    Robot(1000.0, "lstm", double="joints"),
    Robot(0.1, "lstm"),
    Robot(0.1, "mlp", double="joints"),
    Robot(0.5, "scripted gru", decimation=1),
    Robot(1.0, "lstm", decimation=10, double="clock"),
    Robot(1.0, "gru", hooked=False),
    Robot(3.0, "scripted lstm", double="clock", hooked=False),
    Robot(10.0, "mlp", decimation=10),
    Robot(10.0, "gru", double="joints"),
    Robot(20.0, "lstm", hooked=False),
    Robot(50.0, "scripted gru", double="clock"),
    Robot(50.0, "mlp", hooked=False),
    Robot(100.0, "lstm", double="clock"),
    Robot(100.0, "scripted lstm", decimation=10, hooked=False),
    Robot(300.0, "gru", double="joints", hooked=False),
    Robot(500.0, "scripted gru"),
    Robot(1000.0, "scripted lstm", double="clock", hooked=False),
    Robot(1000.0, "mlp", decimation=2),
)


class PdRobot(TestEnvironment):
    """Joints with a PD law, targets that follow a filter, and a clock."""

    num_actions = JOINTS
    num_observations = 3 * JOINTS + 2

    def __init__(self, robot: Robot, reset_every: int = 401):
        super().__init__(robot.decimation, reset_every)
        generator = torch.Generator().manual_seed(7)
        kind = torch.float64 if robot.double == "joints" else torch.float32
        self._robot = robot
        self.stiffness = robot.strength * (1 + torch.rand(JOINTS, generator=generator))
        self.damping = 0.02 * self.stiffness
        self.order = torch.arange(JOINTS)
        self.pose = torch.linspace(-0.4, 0.4, JOINTS)
        self.position = 0.1 * torch.ones(1, JOINTS, dtype=kind)
        self.velocity = torch.zeros(1, JOINTS, dtype=kind)
        self.filtered = torch.full((1, JOINTS), START)
        self.clock = torch.zeros(1, 1, dtype=torch.float64 if robot.double == "clock" else torch.float32)
        self.torque = torch.zeros(1, JOINTS)
        self.context_manager().add_components(
            [
                Input("position", lambda: self.position),
                Input("velocity", lambda: self.velocity),
                Memory("filtered", lambda: self.filtered),
                Memory("clock", lambda: self.clock),
                Output("torque", lambda: self.torque),
            ]
        )

    def observe(self) -> torch.Tensor:
        phase = (2 * torch.pi * self.clock).to(torch.float32)
        joints = [self.position.float() - self.pose, 0.05 * self.velocity.float(), self.filtered]
        return torch.cat([*joints, phase.sin(), phase.cos()], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.filtered = 0.8 * self.filtered + 0.2 * actions.float().tanh()
        self.clock = torch.remainder(self.clock + 0.0137, 1.0)

    def apply_actions(self) -> None:
        error = self.pose + self.filtered[:, self.order] - self.position
        self.torque[:] = (self.stiffness * error - self.damping * self.velocity).to(torch.float32)

    def move(self) -> None:
        self.velocity = 0.5 * self.velocity + self.torque / self._robot.strength + self.noise(self.velocity)
        self.position = self.position + 0.02 * self.velocity

    def prepare_export(self) -> None:
        pass

    def restart(self) -> None:
        self.position = torch.full_like(self.position, 0.1)
        self.velocity = torch.zeros_like(self.velocity)
        self.filtered = torch.full((1, JOINTS), START)
        self.clock = torch.zeros_like(self.clock)

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        if self._robot.hooked:
            super().register_evaluation_hooks(update, reset, evaluate_substep)


class Network(torch.nn.Module):
    """A recurrent network that keeps its state in buffers, as the public policies of Unitree do."""

    def __init__(self, kind: str, observations: int, actions: int):
        super().__init__()
        torch.manual_seed(0)
        self.is_lstm = kind == "lstm"
        self.hidden: torch.Tensor
        self.cell: torch.Tensor
        self.lstm = torch.nn.LSTM(observations, 32)
        self.gru = torch.nn.GRU(observations, 32)
        self.head = torch.nn.Linear(32, actions)
        self.register_buffer("hidden", torch.zeros(1, 1, 32))
        self.register_buffer("cell", torch.zeros(1, 1, 32))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Compute actions, and write the new state into the buffers."""
        if self.is_lstm:
            features, (hidden, cell) = self.lstm(observations.unsqueeze(0), (self.hidden, self.cell))
            self.cell[:] = cell
        else:
            features, hidden = self.gru(observations.unsqueeze(0), self.hidden)
        self.hidden[:] = hidden
        return 3.0 * self.head(features.squeeze(0))


class Recurrent(ExportableActor):
    """An actor around such a network, scripted or not."""

    def __init__(self, kind: str, observations: int = PdRobot.num_observations, actions: int = JOINTS):
        super().__init__()
        self.is_lstm = kind.endswith("lstm")
        network = Network("lstm" if self.is_lstm else "gru", observations, actions)
        self.network: Any = torch.jit.script(network) if kind.startswith("scripted") else network

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.network(obs)
        return result

    def reset(self, dones: torch.Tensor) -> None:
        self.network.hidden[:, dones] = 0.0
        self.network.cell[:, dones] = 0.0

    def get_state(self) -> tuple[torch.Tensor, ...]:
        return (self.network.hidden, self.network.cell) if self.is_lstm else (self.network.hidden,)


def robot_and_actor(robot: Robot) -> tuple[PdRobot, ExportableActor]:
    """A robot and its actor, whose states are registered."""
    env = PdRobot(robot)
    if robot.actor == "mlp":
        return env, make_actor(env.num_observations, JOINTS)
    actor = Recurrent(robot.actor)
    add_actor_memory(env.context_manager(), actor.get_state)
    return env, actor
