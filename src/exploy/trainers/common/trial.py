"""Tries a policy before it is exported, so that what the library raises can be told from what the export raises."""

import torch

from exploy.capture.quiet_loggers import quiet_loggers
from exploy.errors import PolicyError
from exploy.policy.policy import Policy, Tensors


def trial_inputs(policy: Policy) -> tuple[Tensors, Tensors]:
    """Random observations and the first states, for one robot."""
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(item.draw(1, generator) for item in policy.inputs)
    return inputs, tuple(state.initial(1) for state in policy.states)


def failure_of(policy: Policy) -> Exception | None:
    """What a step raises; None if it works. The random generators are afterwards as before.

    Raises:
        PolicyError: If two steps from the same observations give different actions.
    """
    inputs, states = trial_inputs(policy)
    results = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]), quiet_loggers():
        for seed in (0, 1):
            torch.manual_seed(seed)
            try:
                results.append(policy.step(inputs, states)[0][0])
            except PolicyError:
                raise
            except Exception as error:
                return error
    if not torch.equal(results[0], results[1]):
        raise PolicyError(
            "The policy gives other actions for the same observation each time: it draws random numbers that are "
            "neither normal nor categorical. Export a model with a deterministic form."
        )
    return None
