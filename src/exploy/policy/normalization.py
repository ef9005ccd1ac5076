"""Observation normalisation with fixed statistics."""

import torch

from exploy.errors import PolicyError
from exploy.policy.policy import BATCH, Shape


class Normalization(torch.nn.Module):
    """Computes (x - mean) / scale, clipped, in the precision of the statistics. The result is float32.

    Args:
        mean: The mean, with the shape of one observation.
        scale: The divisor, with the same shape.
        clip: The largest absolute value of the result. None for no clipping.
    """

    def __init__(self, mean: torch.Tensor, scale: torch.Tensor, clip: float | None = None):
        super().__init__()
        self.mean: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("mean", mean.detach().cpu().clone())
        self.register_buffer("scale", scale.detach().cpu().clone())
        self.clip = clip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise a batch of observations."""
        normalized = (x - self.mean) / self.scale
        if self.clip is not None:
            normalized = normalized.clamp(-self.clip, self.clip)
        return normalized.float()


def require_matching_size(normalizer: str, width: tuple[int, ...], port: str, shape: Shape) -> None:
    """Raise if the statistics of a normaliser do not have the shape of one observation.

    Args:
        normalizer: The name of the normaliser.
        width: The shape of its statistics.
        port: The input that it is applied to.
        shape: The shape of that input.

    Raises:
        PolicyError: With both shapes.
    """
    expected = tuple(size for size in shape if size != BATCH)
    if tuple(width) not in (expected, ()):
        raise PolicyError(
            f"{normalizer} has statistics of shape {tuple(width)}, but one observation {port!r} of the policy has "
            f"shape {expected}. Give the normaliser that belongs to this policy."
        )
