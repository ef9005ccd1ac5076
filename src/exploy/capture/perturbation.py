"""Values to test a program with: the current values, values near them, and different values. All on the CPU."""

from collections.abc import Callable

import torch

from exploy.environment.tensor_copies import cpu_copy

Variation = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def as_found(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A copy of the values."""
    return cpu_copy(tensor)


def around(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random values near the given values, with the same shape and dtype.

    Floats change by about a tenth of their size. Integers are drawn from the range of the current values, extended to
    include 0 and 1, which usually keeps indices valid. Booleans are drawn at random.
    """
    value = as_found(tensor, generator)
    if value.numel() == 0 or value.is_complex():
        return value
    if value.dtype == torch.bool:
        return torch.rand(value.shape, generator=generator) < 0.5
    if value.is_floating_point():
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float32)
        size = 1.0 + torch.nan_to_num(value.float().abs(), nan=0.0, posinf=0.0, neginf=0.0)
        return value + (0.1 * size * noise).to(value.dtype)
    low, high = max(min(int(value.min()), 0), -(2**62)), min(max(int(value.max()), 1), 2**62)
    return torch.randint(low, high + 1, value.shape, generator=generator).to(value.dtype)


def disturbed(tensor: torch.Tensor, generator: torch.Generator, scale: float = 1.0) -> torch.Tensor:
    """Values that all differ: floats change by about `scale`, integers by one, booleans are inverted."""
    if tensor.dtype == torch.bool:
        return ~tensor
    if tensor.is_floating_point():
        return tensor + (scale * torch.randn(tensor.shape, generator=generator)).to(tensor.dtype)
    return tensor + 1 if tensor.numel() else tensor


def probes(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Values that code treats in special ways: 0, 1, -1, one more, one less, and the extremes of an integer type.

    Booleans are all True or all False. Values that equal those of the tensor are left out.
    """
    values = [torch.zeros_like(tensor), torch.ones_like(tensor)]
    if tensor.dtype != torch.bool:
        values += [tensor + 1, tensor - 1]
        values += [-torch.ones_like(tensor)] if tensor.dtype != torch.uint8 else []
    if not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool):
        limits = torch.iinfo(tensor.dtype)
        values += [torch.full_like(tensor, limits.max), torch.full_like(tensor, limits.min)]
    return [value for value in values if not torch.equal(value, tensor)]
