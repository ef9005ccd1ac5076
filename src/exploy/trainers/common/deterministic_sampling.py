"""Makes sampling policies deterministic."""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from exploy.errors import PolicyError

_WITHOUT_SUCH_A_FORM = {
    "_sample_dirichlet": "Beta or Dirichlet",
    "_standard_gamma": "Gamma",
    "exponential_": "Exponential",
    "cauchy_": "Cauchy",
    "geometric_": "Geometric",
    "log_normal_": "LogNormal",
    "poisson": "Poisson",
    "binomial": "Binomial",
}


class DeterministicSampling(TorchFunctionMode):
    """Replaces samples from normal and categorical distributions with the most likely value, in this thread.

    Sampling from a distribution without a deterministic form raises PolicyError.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch function, or return the most likely result instead of a sample."""
        kwargs = kwargs or {}
        if func is torch.Tensor.normal_:
            return args[0].fill_(args[1] if len(args) > 1 else kwargs.get("mean", 0.0))
        first: Any = args[0] if args else kwargs.get("mean", kwargs.get("input"))
        if func is torch.normal and isinstance(first, torch.Tensor):
            return first.clone()
        count = args[1] if len(args) > 1 else kwargs.get("num_samples")
        if func in (torch.multinomial, torch.Tensor.multinomial) and count == 1:
            return torch.argmax(first, dim=-1, keepdim=True)
        if func in (torch.bernoulli, torch.Tensor.bernoulli):
            return (args[0] > 0.5).to(args[0].dtype)
        kind = _WITHOUT_SUCH_A_FORM.get(getattr(func, "__name__", ""))
        if kind is not None:
            raise PolicyError(
                f"The policy samples from a {kind} distribution, which has no standard deterministic form. "
                "Export a module that returns the action itself."
            )
        return func(*args, **kwargs)
