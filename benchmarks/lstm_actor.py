"""A recurrent policy: one LSTM layer and a head."""

import torch

from exploy.exporter.core.actor import ExportableActor


class LstmActor(ExportableActor):
    """An LSTM of 128 units whose state persists between calls.

    Args:
        num_observations: Width of the observation.
        num_actions: Width of the actions.
    """

    def __init__(self, num_observations: int, num_actions: int):
        super().__init__()
        torch.manual_seed(0)
        self._lstm = torch.nn.LSTM(num_observations, 128)
        self._head = torch.nn.Linear(128, num_actions)
        self._state = (torch.zeros(1, 1, 128), torch.zeros(1, 1, 128))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Compute actions for a batch of observations."""
        hidden, self._state = self._lstm(observations.unsqueeze(0), self._state)
        actions: torch.Tensor = self._head(hidden.squeeze(0))
        return actions

    def get_state(self) -> tuple[torch.Tensor, ...]:
        """Hidden and cell state."""
        return self._state
