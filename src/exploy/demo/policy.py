"""The policy of the cart-pole, and its trained weights, which are part of the package."""

from importlib import resources

import numpy as np
import torch

from exploy.environment.actor import ExportableActor

WEIGHTS_FILE = "cart_pole_policy.npz"
NUM_OBSERVATIONS = 8
_HIDDEN_WIDTH = 32
_SMALLEST_STD = 0.05


class CartPoleActor(ExportableActor):
    """A small network with normalized observations. It has no state."""

    observation_mean: torch.Tensor
    observation_std: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("observation_mean", torch.zeros(NUM_OBSERVATIONS))
        self.register_buffer("observation_std", torch.ones(NUM_OBSERVATIONS))
        self.network = torch.nn.Sequential(
            torch.nn.Linear(NUM_OBSERVATIONS, _HIDDEN_WIDTH),
            torch.nn.ELU(),
            torch.nn.Linear(_HIDDEN_WIDTH, _HIDDEN_WIDTH),
            torch.nn.ELU(),
            torch.nn.Linear(_HIDDEN_WIDTH, 1),
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Compute raw actions of shape (batch_size, 1) from observations of shape (batch_size, 8).

        Raises:
            RuntimeError: From torch, if the observations have the wrong width.
        """
        actions: torch.Tensor = self.network((obs - self.observation_mean) / self.observation_std)
        return actions

    def fit_normaliser(self, observations: torch.Tensor) -> None:
        """Compute mean and standard deviation from a sample. Small standard deviations are raised to a minimum."""
        self.observation_mean[:] = observations.mean(dim=0)
        self.observation_std[:] = observations.std(dim=0).clamp(min=_SMALLEST_STD)


def load_trained_actor() -> CartPoleActor:
    """Load the actor with the trained weights of the package, in evaluation mode.

    Raises:
        FileNotFoundError: If the package was installed without the weights.
        RuntimeError: From torch, if the weights do not fit the network.
    """
    with (resources.files("exploy.demo") / WEIGHTS_FILE).open("rb") as file, np.load(file) as weights:
        state = {name: torch.from_numpy(weights[name]) for name in weights.files}
    actor = CartPoleActor()
    actor.load_state_dict(state)
    return actor.eval()
