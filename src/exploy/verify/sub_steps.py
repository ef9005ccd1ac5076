"""The sub-steps of a step: which calls of a function are sub-steps, and what each has read and written."""

import types
from collections import Counter
from dataclasses import dataclass, field

from exploy.verify.output_watch import Period
from exploy.verify.stepped import Values, changed_names

Site = tuple[tuple[types.CodeType, int], ...]  # the functions that are running, and where in their code


@dataclass
class SubStep:
    """Inputs that one `apply_actions()` reads, and the Outputs and memories after it; None if these are not known.

    `later` has the Outputs and memories when the step goes on after the simulator has moved; None if that is not known,
    or if `outputs` were read at that time. `periods` are the values that Outputs had until the next sub-step, if they
    were watched.
    """

    number: int
    inputs: Values
    outputs: Values | None = None
    later: Values | None = None
    site: Site = ()
    first_period: int = 0
    periods: list[Period] = field(default_factory=list)


def sites_of_sub_steps(calls: list[SubStep], decimation: int, after: Values) -> frozenset[Site] | None:
    """From where a step calls a function for its sub-steps, if it may call it for something else as well.

    A reward may call the law that computes torques once more. The simulator does not move after such a call: no Input
    changes that changes after the sub-steps.

    Args:
        calls: All calls of the function in the step, in order.
        decimation: How many of them are sub-steps.
        after: The Inputs after the step.

    Returns:
        The places of the calls that are sub-steps; None if there is no such choice.
    """
    moves = _moves(calls, after)
    counts = Counter(call.site for call in calls)
    moving = frozenset(call.site for call, names in zip(calls, moves, strict=True) if names)
    choices = [frozenset(counts), moving, *(frozenset([site]) for site in counts)]
    choices = [item for item in choices if sum(counts[site] for site in item) == decimation]
    choices.sort(key=lambda item: -sum(len(names) for names in _at(item, calls, moves)))
    for sites in choices:
        moved = set().union(*_at(sites, calls, moves))
        others = set(counts) - sites
        if not any(names & moved for names in _at(others, calls, moves)):
            return sites
    return None


def simulator_moves_each_time(calls: list[SubStep], after: Values) -> bool:
    """Whether some Input changes after every call of a function, as if each were a sub-step."""
    return bool(set.intersection(*_moves(calls, after))) if calls else False


def _moves(calls: list[SubStep], after: Values) -> list[set[str]]:
    """The Inputs that change after each call, until the next one or the end of the step."""
    inputs = [*(call.inputs for call in calls), after]
    return [changed_names(inputs[index], inputs[index + 1]) for index in range(len(calls))]


def _at(sites: frozenset[Site] | set[Site], calls: list[SubStep], moves: list[set[str]]) -> list[set[str]]:
    return [names for call, names in zip(calls, moves, strict=True) if call.site in sites]
