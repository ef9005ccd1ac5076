"""Substitutes for the code of mjlab that cannot be captured."""

import importlib
from typing import Any

import torch

from exploy.environment.substitutes import Substitute, substitute
from exploy.simulators.ring_buffers import ShiftingBuffer, as_ring, in_order_of_time, random_call_of_mjlab


def mjlab_substitutes() -> list[Substitute]:
    """Substitutes for the ring buffers and delays of mjlab 1.6, which must be installed.

    Example:
        >>> env.context_manager().add_substitutes(mjlab_substitutes())
    """
    buffers = importlib.import_module("mjlab.utils.buffers")
    return [
        substitute(
            buffers.CircularBuffer,
            ShiftingBuffer,
            from_original=in_order_of_time,
            to_original=as_ring,
            random_call=random_call_of_mjlab,
        ),
        substitute(buffers.DelayBuffer._sample_lags, sample_lags),
    ]


def sample_lags(buffer: Any, mask: torch.Tensor) -> torch.Tensor:
    """The delays of `DelayBuffer`, without a random number where there is only one delay to draw."""
    if buffer.min_lag == buffer.max_lag and buffer.hold_prob == 0:
        drawn = torch.full_like(buffer._current_lags, buffer.min_lag)
        return torch.where(mask, drawn, buffer._current_lags)
    options = {"device": buffer.device, "generator": buffer.generator}
    count = buffer.batch_size if buffer.per_env else 1
    drawn = torch.randint(buffer.min_lag, buffer.max_lag + 1, (count,), **options).expand(buffer.batch_size)
    if buffer.hold_prob > 0:
        mask = mask & (torch.rand(buffer.batch_size, **options) >= buffer.hold_prob)
    return torch.where(mask, drawn, buffer._current_lags)
