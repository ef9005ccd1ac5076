"""An environment with the size of a legged robot: 8 inputs, 3 memories, 48 observations, 12 actions."""

import itertools
from typing import Any

import torch

from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.exportable_environment import ExportableEnvironment

INPUT_WIDTHS = {
    "linear_velocity": 3,
    "angular_velocity": 3,
    "gravity": 3,
    "command": 3,
    "joint_position": 4,
    "joint_velocity": 4,
    "foot_contact": 2,
    "phase": 2,
}
NUM_ACTIONS = 12
NUM_OBSERVATIONS = sum(INPUT_WIDTHS.values()) + 2 * NUM_ACTIONS


def make_network() -> torch.nn.Sequential:
    """The policy: a multi-layer perceptron 48-512-256-128-12."""
    torch.manual_seed(0)
    widths = [NUM_OBSERVATIONS, 512, 256, 128, NUM_ACTIONS]
    layers: list[torch.nn.Module] = []
    for width, next_width in itertools.pairwise(widths):
        layers += [torch.nn.Linear(width, next_width), torch.nn.ELU()]
    return torch.nn.Sequential(*layers[:-1]).eval()


class MlpEnvironment(ExportableEnvironment):
    """Concatenates its inputs with the last two actions, and filters its targets at every sub-step."""

    def __init__(self) -> None:
        super().__init__()
        self.state = {name: torch.zeros(1, width) for name, width in INPUT_WIDTHS.items()}
        self.last = torch.zeros(1, NUM_ACTIONS)
        self.before_last = torch.zeros(1, NUM_ACTIONS)
        self.filtered = torch.zeros(1, NUM_ACTIONS)
        self.target = torch.zeros(1, NUM_ACTIONS)
        manager = self.context_manager()
        for name in self.state:
            manager.add_component(Input(name, lambda name=name: self.state[name]))  # type: ignore[misc]
        manager.add_components(
            [
                Memory("last", lambda: self.last),
                Memory("before_last", lambda: self.before_last),
                Memory("filtered", lambda: self.filtered),
                Output("joint_targets", lambda: self.filtered * 1.0),
            ]
        )

    def compute_observations(self) -> torch.Tensor:
        """The inputs and the last two actions."""
        return torch.cat([*self.state.values(), self.last, self.before_last], dim=-1)

    def process_actions(self, actions: torch.Tensor) -> None:
        """Store and scale the actions."""
        self.before_last[:] = self.last
        self.last[:] = actions
        self.target = 0.25 * actions

    def apply_actions(self) -> None:
        """Filter the targets."""
        self.filtered[:] = self.filtered + 0.5 * (self.target - self.filtered)

    def prepare_export(self) -> None:
        """Nothing to do."""

    def empty_actor_observations(self) -> torch.Tensor:
        """Zeros."""
        return torch.zeros(1, NUM_OBSERVATIONS)

    def empty_actions(self) -> torch.Tensor:
        """Zeros."""
        return torch.zeros(1, NUM_ACTIONS)

    def metadata(self) -> dict[str, Any]:
        """Name of the environment."""
        return {"env_name": "MLP"}

    @property
    def decimation(self) -> int:
        """Simulation steps per policy step."""
        return 4

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        """Not used."""

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Run one policy step without a simulation."""
        self.process_actions(actions)
        for _ in range(self.decimation):
            self.apply_actions()
        return self.compute_observations(), False

    def get_observation_names(self) -> list[str]:
        """Numbered names."""
        return [f"observation_{index}" for index in range(NUM_OBSERVATIONS)]

    def observations_reset(self) -> torch.Tensor:
        """Observations of the current state."""
        return self.compute_observations()
