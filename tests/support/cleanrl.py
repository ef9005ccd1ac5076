"""Agents in the forms that CleanRL's scripts have: single files that are copied, not installed."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Beta, Categorical, Normal


def _widths(envs: Any) -> tuple[int, int]:
    actions = envs.single_action_space
    return int(np.prod(envs.single_observation_space.shape)), int(getattr(actions, "n", np.prod(actions.shape)))


def _mlp(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, out))


class ContinuousAgent(nn.Module):
    """PPO with continuous actions."""

    def __init__(self, envs: Any):
        super().__init__()
        width, actions = _widths(envs)
        self.critic, self.actor_mean = _mlp(width, 1), _mlp(width, actions)
        self.actor_logstd = nn.Parameter(torch.zeros(1, actions))

    def distribution(self, mean: torch.Tensor) -> Any:
        return Normal(mean, torch.exp(self.actor_logstd.expand_as(mean)))

    def get_action_and_value(self, x: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        probs = self.distribution(self.actor_mean(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


class BetaAgent(ContinuousAgent):
    def distribution(self, mean: torch.Tensor) -> Any:
        return Beta(1 + mean.exp(), 2 + mean.exp())


class DiscreteAgent(nn.Module):
    """PPO with discrete actions."""

    def __init__(self, envs: Any):
        super().__init__()
        width, actions = _widths(envs)
        self.critic, self.actor = _mlp(width, 1), _mlp(width, actions)

    def get_action_and_value(self, x: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


class MultiDiscreteAgent(nn.Module):
    """PPO with several discrete actions at once."""

    def __init__(self, envs: Any):
        super().__init__()
        self.nvec = [int(size) for size in envs.single_action_space.nvec]
        width = int(np.prod(envs.single_observation_space.shape))
        self.critic, self.actor = _mlp(width, 1), _mlp(width, sum(self.nvec))

    def get_action_and_value(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parts = [Categorical(logits=part) for part in torch.split(self.actor(x), self.nvec, dim=1)]
        action = torch.stack([part.sample() for part in parts])
        log_prob = torch.stack([part.log_prob(value) for part, value in zip(parts, action, strict=True)])
        return action.T, log_prob.sum(0), self.critic(x)


def _convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(4, 8, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(8, 8, 4, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 9 * 9, 32),
        nn.ReLU(),
    )


class PixelAgent(nn.Module):
    """PPO on images: four frames of 84 by 84."""

    def __init__(self, actions: int = 5):
        super().__init__()
        self.network, self.actor, self.critic = _convolutions(), nn.Linear(32, actions), nn.Linear(32, 1)

    def get_action_and_value(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = self.network(x / 255.0)
        probs = Categorical(logits=self.actor(hidden))
        action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


class RecurrentAgent(nn.Module):
    """PPO with an LSTM, which is reset within a sequence where an episode is done."""

    def __init__(self, envs: Any):
        super().__init__()
        width, actions = _widths(envs)
        self.network = nn.Sequential(nn.Linear(width, 32), nn.ReLU())
        self.lstm = nn.LSTM(32, 16)
        self.actor, self.critic = nn.Linear(16, actions), nn.Linear(16, 1)

    def get_states(self, x: torch.Tensor, lstm_state: Any, done: torch.Tensor) -> Any:
        robots = lstm_state[0].shape[1]
        hidden = self.network(x).reshape((-1, robots, self.lstm.input_size))
        outputs = []
        for features, flags in zip(hidden, done.reshape((-1, robots)), strict=True):
            kept = (1.0 - flags).view(1, -1, 1)
            output, lstm_state = self.lstm(features.unsqueeze(0), (kept * lstm_state[0], kept * lstm_state[1]))
            outputs.append(output)
        return torch.flatten(torch.cat(outputs), 0, 1), lstm_state

    def get_action_and_value(self, x: torch.Tensor, lstm_state: Any, done: torch.Tensor) -> tuple[Any, ...]:
        hidden, lstm_state = self.get_states(x, lstm_state, done)
        probs = Categorical(logits=self.actor(hidden))
        action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden), lstm_state


class SquashedActor(nn.Module):
    """SAC: the third value of get_action() is the deterministic one."""

    action_scale: torch.Tensor
    action_bias: torch.Tensor

    def __init__(self, envs: Any):
        super().__init__()
        width, actions = _widths(envs)
        space = envs.single_action_space
        self.fc1, self.fc_mean, self.fc_logstd = nn.Linear(width, 32), nn.Linear(32, actions), nn.Linear(32, actions)
        self.register_buffer("action_scale", torch.tensor((space.high - space.low) / 2.0))
        self.register_buffer("action_bias", torch.tensor((space.high + space.low) / 2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.fc1(x))
        return self.fc_mean(x), -5 + 3.5 * (torch.tanh(self.fc_logstd(x)) + 1)

    def get_action(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_std = self(x)
        normal = Normal(mean, log_std.exp())
        squashed = torch.tanh(normal.rsample())
        log_prob = normal.log_prob(mean) - torch.log(self.action_scale * (1 - squashed.pow(2)) + 1e-6)
        best = torch.tanh(mean) * self.action_scale + self.action_bias
        return squashed * self.action_scale + self.action_bias, log_prob.sum(1, keepdim=True), best


class DeterministicActor(SquashedActor):
    """TD3 and DDPG."""

    get_action = None  # type: ignore[assignment]

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return torch.tanh(self.fc_mean(torch.relu(self.fc1(x)))) * self.action_scale + self.action_bias


class QNetwork(nn.Module):
    """DQN."""

    def __init__(self, envs: Any):
        super().__init__()
        self.network = _mlp(*_widths(envs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)


class CategoricalQNetwork(nn.Module):
    """C51."""

    atoms: torch.Tensor

    def __init__(self, envs: Any, n_atoms: int = 11):
        super().__init__()
        width, self.n = _widths(envs)
        self.n_atoms = n_atoms
        self.register_buffer("atoms", torch.linspace(-3, 3, steps=n_atoms))
        self.network = _mlp(width, self.n * n_atoms)

    def get_action(self, x: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        pmfs = torch.softmax(self.network(x).view(len(x), self.n, self.n_atoms), dim=2)
        if action is None:
            action = torch.argmax((pmfs * self.atoms).sum(2), 1)
        return action, pmfs[torch.arange(len(x)), action]
