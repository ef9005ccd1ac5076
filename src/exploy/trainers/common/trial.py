"""Runs a policy before the export, to separate errors of the library from errors of the export."""

import torch

from exploy.capture.quiet_loggers import quiet_loggers
from exploy.errors import PolicyError
from exploy.policy.policy import Policy, Tensors


def trial_inputs(policy: Policy) -> tuple[Tensors, Tensors]:
    """Random observations and the initial states for one robot."""
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(item.draw(1, generator) for item in policy.inputs)
    return inputs, tuple(state.initial(1) for state in policy.states)


def failure_of(policy: Policy) -> Exception | None:
    """The exception that a step raises, or None. The state of the random generators is restored.

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
            "The policy returns different actions for the same observation: it draws random numbers that are neither "
            "normal nor categorical. Export a model with a deterministic form."
        )
    return None
