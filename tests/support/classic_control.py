"""Two of Gymnasium's environments, rewritten in torch for batches as people do it to train fast."""

import math

import torch

from exploy.exporter.core.components import Input, Memory, Output
from tests.support.environments import TestEnvironment


class TorchCartPole(TestEnvironment):
    """CartPole-v1: one state tensor, replaced at each step; a positive action pushes to the right."""

    num_actions = 1
    num_observations = 5

    def __init__(self, left_out: str = ""):
        super().__init__(decimation=1, reset_every=40)
        self.state = torch.tensor([[0.01, -0.02, 0.03, 0.04]])
        self.last_action = torch.zeros(1, 1)
        self.force = torch.zeros(1, 1)
        components: list[Input | Output] = [
            Input("x", lambda: self.state[:, 0:1]),
            Input("x_dot", lambda: self.state[:, 1:2]),
            Input("theta", lambda: self.state[:, 2:3]),
            Input("theta_dot", lambda: self.state[:, 3:4]),
            Memory("last_action", lambda: self.last_action),
            Output("force", lambda: self.force),
        ]
        self.context_manager().add_components([item for item in components if item.name != left_out])

    def observe(self) -> torch.Tensor:
        return torch.cat([self.state, self.last_action], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last_action = actions.clone()
        self.force = torch.where(actions > 0, 10.0, -10.0)

    def move(self) -> None:
        _, x_dot, theta, theta_dot = self.state.unbind(-1)
        cos, sin = theta.cos(), theta.sin()
        push = (self.force[:, 0] + 0.05 * theta_dot**2 * sin) / 1.1
        theta_acc = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        x_acc = push - 0.05 * theta_acc * cos / 1.1
        step = torch.stack([x_dot, x_acc, theta_dot, theta_acc], -1)
        self.state = self.state + 0.02 * step

    def restart(self) -> None:
        self.state = torch.tensor([[0.01, -0.02, 0.03, 0.04]])
        self.last_action = torch.zeros(1, 1)


class TorchPendulum(TestEnvironment):
    """Pendulum-v1: a tensor for each coordinate, written in place, and a filtered torque."""

    num_actions = 1
    num_observations = 4

    def __init__(self, left_out: str = ""):
        super().__init__(decimation=2, reset_every=40)
        self.theta = torch.full((1, 1), 1.0)
        self.theta_dot = torch.zeros(1, 1)
        self.last_torque = torch.zeros(1, 1)
        self.torque = torch.zeros(1, 1)
        components: list[Input | Output] = [
            Input("theta", lambda: self.theta),
            Input("theta_dot", lambda: self.theta_dot),
            Memory("last_torque", lambda: self.last_torque),
            Output("torque", lambda: self.torque),
        ]
        self.context_manager().add_components([item for item in components if item.name != left_out])

    def observe(self) -> torch.Tensor:
        return torch.cat([self.theta.cos(), self.theta.sin(), self.theta_dot, self.last_torque], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last_torque[:] = actions.clamp(-2.0, 2.0)

    def apply_actions(self) -> None:
        self.torque = self.last_torque * 1.0

    def move(self) -> None:
        gravity = 15.0 * self.theta.sin()
        self.theta_dot[:] = (self.theta_dot + 0.05 * (gravity + 3.0 * self.torque)).clamp(-8.0, 8.0)
        self.theta += 0.05 * self.theta_dot

    def restart(self) -> None:
        self.theta.fill_(math.pi / 3)
        self.theta_dot.zero_()
        self.last_torque.zero_()
