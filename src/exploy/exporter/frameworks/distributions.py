"""The deterministic form of torch.distributions, for policies that know only how to sample."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import distributions

from exploy.errors import PolicyError


def _mean(distribution: Any, sample_shape: Any = ()) -> torch.Tensor:
    mean: torch.Tensor = distribution.mean
    return mean


def _most_likely(distribution: Any, sample_shape: Any = ()) -> torch.Tensor:
    most_likely: torch.Tensor = distribution.logits.argmax(dim=-1)
    return most_likely


def _more_likely(distribution: Any, sample_shape: Any = ()) -> torch.Tensor:
    return (distribution.logits > 0).to(distribution.logits.dtype)


_FORMS: dict[type, Callable[..., torch.Tensor]] = {
    distributions.Normal: _mean,
    distributions.MultivariateNormal: _mean,
    distributions.Categorical: _most_likely,
    distributions.Bernoulli: _more_likely,
}
_HAND_ON = (distributions.Independent, distributions.TransformedDistribution)  # to the distribution inside


@contextlib.contextmanager
def deterministic_distributions() -> Iterator[None]:
    """Let distributions give their mean or most likely value instead of samples.

    Sampling from one that has no such form raises PolicyError meanwhile.
    """
    with contextlib.ExitStack() as stack:
        for kind in _all_kinds():
            form = next((_FORMS[base] for base in kind.__mro__ if base in _FORMS), _refuse)
            for name in ("sample", "rsample"):
                if name in vars(kind) and kind not in _HAND_ON:
                    stack.enter_context(_replaced(kind, name, form))
        yield


def _all_kinds() -> list[type]:
    found, pending = [], [distributions.Distribution]
    while pending:
        kind = pending.pop()
        found.append(kind)
        pending.extend(kind.__subclasses__())
    return found


def _refuse(distribution: Any, sample_shape: Any = ()) -> torch.Tensor:
    known = ", ".join(kind.__name__ for kind in _FORMS)
    raise PolicyError(
        f"The policy samples from a {type(distribution).__name__}, which has no deterministic form that everybody "
        f"agrees on; {known} have one. Export a module that gives the action itself."
    )


@contextlib.contextmanager
def _replaced(kind: type, name: str, form: Callable[..., Any]) -> Iterator[None]:
    original = vars(kind)[name]
    setattr(kind, name, form)
    try:
        yield
    finally:
        setattr(kind, name, original)
