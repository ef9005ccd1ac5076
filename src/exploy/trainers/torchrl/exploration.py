"""How a policy explores in its file, and whether it can do so."""

from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.keys import EXTRA


def exploration_of(exploration: Any) -> Any:
    """The exploration type: the one that was given, else the one that is set around the call, else deterministic.

    Raises:
        PolicyError: If there is none of that name.
    """
    utils = library("torchrl.envs.utils", EXTRA)
    if exploration is None:
        exploration = utils.exploration_type()
    if exploration is None:
        return utils.ExplorationType.DETERMINISTIC
    try:
        return utils.ExplorationType(exploration.lower() if isinstance(exploration, str) else exploration)
    except ValueError as error:
        names = ", ".join(kind.name for kind in utils.ExplorationType)
        raise PolicyError(f"exploration must be one of {names}, or None, got {exploration!r}.") from error


def is_random(exploration: Any) -> bool:
    """Whether it draws random numbers."""
    return bool(exploration == library("torchrl.envs.utils", EXTRA).ExplorationType.RANDOM)


def distributions_in(module: torch.nn.Module) -> str:
    """The distributions of a policy's heads, for messages."""
    found = [getattr(part, "distribution_class", None) for part in module.modules()]
    return ", ".join(sorted({getattr(kind, "__name__", str(kind)) for kind in found if kind is not None}))


def refuse_unfaithful(results: tuple[Any, Any], exploration: Any, heads: str) -> None:
    """Refuse a policy whose actions are no function of the observations, or no numbers.

    Args:
        results: The actions of two calls with the same inputs, from different random seeds.
        exploration: The exploration type of both.
        heads: The distributions in the policy.

    Raises:
        PolicyError: With what to choose instead.
    """
    if is_random(exploration):
        return
    first, second = results
    advice = "Choose exploration='deterministic', which every head of TorchRL has a form for."
    head = f"its head {heads}" if heads else "it"
    if first.dtype.is_floating_point and bool(torch.isnan(first).any()):
        raise PolicyError(
            f"Under exploration {exploration.name} the policy gives actions that are no numbers: {head} has no such "
            f"value. {advice}"
        )
    if not torch.equal(first, second):
        raise PolicyError(
            f"Under exploration {exploration.name} the policy gives other actions for the same observation each time: "
            f"{head} has no closed form for it, and TorchRL estimates it from samples. {advice} For a policy that is "
            "meant to draw random numbers choose exploration='random'."
        )
