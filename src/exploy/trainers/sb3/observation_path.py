"""The processing of one observation between the environment and the policy."""

from dataclasses import dataclass

import numpy as np
import torch

from exploy.errors import PolicyError
from exploy.policy.normalization import Normalization
from exploy.policy.policy import BATCH, PolicyInput, PolicyState, Tensors

OBS = "obs"
CHANNELS_TO_THE_FRONT = (2, 0, 1)


@dataclass(frozen=True)
class Statistics:
    """The statistics of a VecNormalize for one observation."""

    mean: np.ndarray
    var: np.ndarray
    epsilon: float
    clip: float


class Transpose(torch.nn.Module):
    """Moves the channels of images from the last axis to the first."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Transpose a batch of images."""
        return x.permute(0, *(axis + 1 for axis in CHANNELS_TO_THE_FRONT))


class FrameStack(torch.nn.Module):
    """Stacks the last frames, newest last. Frames before the first one are zeros."""

    def __init__(self, count: int, axis: int):
        super().__init__()
        self.count = count
        self.axis = axis  # with the batch axis counted

    def forward(self, x: torch.Tensor, earlier: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the stacked frames, and the frames that the next step needs."""
        stacked = torch.cat([earlier, x], dim=self.axis)
        size = x.shape[self.axis]
        return stacked, stacked.narrow(self.axis, size, size * (self.count - 1))


class ObservationPath(torch.nn.Module):
    """The processing of one observation: its port, its steps in order, and their states.

    Args:
        port: The port of the raw observation.
        shape: The shape of one raw observation. Each added step updates the attribute `shape`.
    """

    def __init__(self, port: PolicyInput, shape: tuple[int, ...]):
        super().__init__()
        self.port = port
        self.shape = shape
        self.dtype = port.dtype
        self.steps = torch.nn.ModuleList()
        self.states: list[PolicyState] = []

    def normalize(self, statistics: Statistics) -> None:
        """Append normalisation in double precision, as the library does.

        Raises:
            PolicyError: If the statistics have a different shape than the observation.
        """
        if statistics.mean.shape != self.shape:
            raise PolicyError(
                f"The VecNormalize has statistics of shape {statistics.mean.shape}, but the observation "
                f"{self.port.name!r} has shape {self.shape} at this point. Give the VecNormalize of this policy."
            )
        mean, variance = (torch.from_numpy(np.array(item, np.float64)) for item in (statistics.mean, statistics.var))
        self.steps.append(Normalization(mean, (variance + statistics.epsilon).sqrt(), statistics.clip))
        self.dtype = torch.float32

    def transpose(self) -> None:
        """Append a move of the channels to the front."""
        self.steps.append(Transpose())
        self.shape = tuple(self.shape[axis] for axis in CHANNELS_TO_THE_FRONT)

    def stack(self, count: int, axis: int) -> None:
        """Append frame stacking along an axis of one observation."""
        name = "frames" if self.port.name == OBS else f"frames_{self.port.name}"
        name += f"_{len(self.states) + 1}" if self.states else ""
        earlier = resized(self.shape, axis, self.shape[axis] * (count - 1))
        self.shape = resized(self.shape, axis, self.shape[axis] * count)
        self.steps.append(FrameStack(count, axis % len(self.shape) + 1))
        self.states.append(PolicyState(name, (BATCH, *earlier), self.dtype))

    def forward(self, x: torch.Tensor, states: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Return the observation for the policy, and the states for the next step."""
        kept: list[torch.Tensor] = []
        for step in self.steps:
            if isinstance(step, FrameStack):
                x, earlier = step(x, states[len(kept)])
                kept.append(earlier)
            else:
                x = step(x)
        return x, tuple(kept)


def resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """A shape with the size along one axis replaced."""
    sizes = list(shape)
    sizes[axis] = size
    return tuple(sizes)
