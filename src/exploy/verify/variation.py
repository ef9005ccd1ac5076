"""Other values for tensors, near the ones they have."""

import torch


def vary(tensor: torch.Tensor, generator: torch.Generator, scale: float = 1.0) -> torch.Tensor:
    """A CPU tensor of the same shape and dtype with other values around the given ones.

    Floats move by about a tenth of their size; integers are drawn between 0, 1 and the present extremes, which keeps
    indices valid as a rule; booleans are drawn anew. With a scale of 0 the values stay.
    """
    value = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    if scale == 0.0 or value.numel() == 0:
        return value
    if value.dtype == torch.bool:
        return torch.rand(value.shape, generator=generator) < 0.5
    if value.is_floating_point():
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float32)
        size = 1.0 + torch.nan_to_num(value.float().abs(), nan=0.0, posinf=0.0, neginf=0.0)
        return value + (scale * 0.1 * size * noise).to(value.dtype)
    if value.is_complex():
        return value
    low, high = max(min(int(value.min()), 0), -(2**62)), min(max(int(value.max()), 1), 2**62)
    return torch.randint(low, high + 1, value.shape, generator=generator).to(value.dtype)
