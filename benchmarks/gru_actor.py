"""A recurrent policy: one GRU layer and a head."""

import torch

from exploy.exporter.core.actor import ExportableActor


class GruActor(ExportableActor):
    """A GRU of 128 units whose state persists between calls.

    Args:
        num_observations: Width of the observation.
        num_actions: Width of the actions.
    """

    def __init__(self, num_observations: int, num_actions: int):
        super().__init__()
        torch.manual_seed(0)
        self._gru = torch.nn.GRU(num_observations, 128)
        self._head = torch.nn.Linear(128, num_actions)
        self._state = (torch.zeros(1, 1, 128),)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Compute actions for a batch of observations."""
        hidden, state = self._gru(observations.unsqueeze(0), *self._state)
        self._state = (state,)
        actions: torch.Tensor = self._head(hidden.squeeze(0))
        return actions

    def get_state(self) -> tuple[torch.Tensor, ...]:
        """Hidden state."""
        return self._state
