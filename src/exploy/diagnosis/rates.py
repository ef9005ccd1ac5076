"""Findings about the decimation: how often the environment's own step applies actions."""

from collections import Counter
from contextlib import suppress

from exploy.diagnosis.calls import Calls, counted_calls
from exploy.diagnosis.experiments import Experiments
from exploy.diagnosis.finding import Finding, Kind
from exploy.exporter.capture.location import definition
from exploy.exporter.core.environment_checks import checked_decimation

_STEPS_TO_TRY = 3


def calls_in_a_step(experiments: Experiments) -> Calls:
    """The functions that a real step of the environment calls; none if the environment is reset in every step.

    Raises:
        Exception: Whatever the environment raises.
    """
    for _ in range(_STEPS_TO_TRY):
        with counted_calls() as in_step:
            was_reset = experiments.step()
        if not was_reset:
            return in_step
    return Counter()


def decimation_findings(experiments: Experiments, in_step: Calls) -> list[Finding]:
    """Whether a step of the environment applies actions as often as its decimation says.

    Functions that only apply_actions() calls, of all the stages, are counted. Nothing is found where there are none,
    or where the step does not call them.

    Args:
        experiments: The environment and its actor.
        in_step: What `calls_in_a_step()` has counted.
    """
    env = experiments.env
    stated = checked_decimation(env)
    counted = _ratio(_calls_of_apply_actions(experiments), in_step)
    if counted is None or counted == stated:
        return []
    return [
        Finding.of(
            Kind.WRONG_DECIMATION,
            "env.decimation",
            f"is {stated}, but a step of the environment applies actions {counted} times",
            definition(getattr(type(env).decimation, "fget", None)),
            f"type(env).decimation = property(lambda self: {counted})",
        )
    ]


def _calls_of_apply_actions(experiments: Experiments) -> Calls:
    """Functions that apply_actions() calls and no other stage does, in the order of their first call."""
    env = experiments.env
    with experiments.trial():
        with counted_calls() as elsewhere:
            actions = experiments.actor(experiments.observe())
            env.process_actions(actions)
            with suppress(Exception):
                env.observations_reset()
        with counted_calls() as applying:
            env.apply_actions()
    return Counter({code: count for code, count in applying.items() if code not in elsewhere})


def _ratio(calls: Calls, in_step: Calls) -> int | None:
    for code, count in calls.items():
        if in_step[code]:
            return in_step[code] // count if in_step[code] % count == 0 else None
    return None
