"""An environment whose simulator holds far more than the policy observes: many tensors, or one large one."""

from collections.abc import Sequence
from typing import Any

import torch

from exploy.environment.exportable_environment import ExportableEnvironment

NUM_ACTIONS, WIDTH = 12, 4


class WideEnvironment(ExportableEnvironment):
    """Observes some elements of some tensors. Its simulator moves all tensors at each of its steps.

    Args:
        sizes: The number of elements of each tensor.
        observed: The number of tensors that are observed, the first ones, `WIDTH` elements of each.
        spread: Whether these elements are spread over a tensor and read by indices, or its first ones.
    """

    def __init__(self, sizes: Sequence[int], observed: int, spread: bool) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(0)
        self._observed = observed
        self._columns = [torch.linspace(0, size - 1, WIDTH).long() if spread else slice(WIDTH) for size in sizes]
        self.state = {f"tensor_{number}": torch.zeros(1, size) for number, size in enumerate(sizes)}
        self.last_actions = torch.zeros(1, NUM_ACTIONS)
        self.torques = torch.zeros(1, NUM_ACTIONS)

    @property
    def num_observations(self) -> int:
        """Width of the observations."""
        return self._observed * WIDTH + NUM_ACTIONS

    def compute_observations(self) -> torch.Tensor:
        """The elements that are observed, and the last actions."""
        parts = [self.state[f"tensor_{number}"][:, self._columns[number]] for number in range(self._observed)]
        return torch.cat([*parts, self.last_actions], dim=-1)

    def process_actions(self, actions: torch.Tensor) -> None:
        """Store the actions."""
        self.last_actions[:] = actions

    def apply_actions(self) -> None:
        """Compute the torques."""
        self.torques[:] = 0.5 * self.last_actions

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Run one policy step with its sub-steps."""
        self.process_actions(actions)
        for _ in range(self.decimation):
            self.apply_actions()
            self._move()
        return self.compute_observations(), False

    def reset(self) -> None:
        """Start a new episode."""
        self.last_actions.zero_()
        self._move()

    def _move(self) -> None:
        tensors = list(self.state.values())
        torch._foreach_mul_(tensors, 0.9)
        torch._foreach_add_(tensors, 0.1 * float(torch.randn(1, generator=self._generator)))

    def prepare_export(self) -> None:
        """Nothing to do."""

    def empty_actor_observations(self) -> torch.Tensor:
        """Zeros."""
        return torch.zeros(1, self.num_observations)

    def empty_actions(self) -> torch.Tensor:
        """Zeros."""
        return torch.zeros(1, NUM_ACTIONS)

    def metadata(self) -> dict[str, Any]:
        """Name of the environment."""
        return {"env_name": "wide"}

    @property
    def decimation(self) -> int:
        """Simulation steps per policy step."""
        return 2

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        """Not used."""

    def get_observation_names(self) -> list[str]:
        """Numbered names."""
        return [f"observation_{index}" for index in range(self.num_observations)]

    def observations_reset(self) -> torch.Tensor:
        """Observations of the current state."""
        return self.compute_observations()


def make_wide(sizes: Sequence[int], observed: int, *, spread: bool = False) -> tuple[WideEnvironment, torch.nn.Module]:
    """The environment without any component, and a small actor."""
    env = WideEnvironment(sizes, observed, spread)
    torch.manual_seed(0)
    layers = (torch.nn.Linear(env.num_observations, 64), torch.nn.ELU(), torch.nn.Linear(64, NUM_ACTIONS))
    return env, torch.nn.Sequential(*layers).eval()
