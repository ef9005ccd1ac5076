"""Findings about the decimation: how many times a step of the environment applies actions."""

import types
from collections import Counter
from contextlib import suppress
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.validation import validated_decimation
from exploy.errors import InvalidEnvironmentError
from exploy.live.calls import Calls, counted_calls
from exploy.live.location import calling_codes, definition

_STEPS_TO_TRY = 3


def stated_decimation_findings(examination: Examination) -> list[Finding]:
    """Check that the decimation is an integer of 1 or more.

    Raises:
        Exception: Any error that the environment raises.
    """
    env = examination.env
    try:
        validated_decimation(env)
    except InvalidEnvironmentError as error:
        what = str(error).removesuffix(".")
        advice = "# set decimation to the number of simulation steps in a policy step"
        return [Finding.of(FindingKind.WRONG_DECIMATION, "env.decimation", what, _defined_at(env), advice)]
    return []


def calls_in_a_step(experiments: Experiments) -> Calls:
    """The functions that a real step of the environment calls; empty if every step ends in a reset.

    Raises:
        Exception: Any error that the environment raises.
    """
    for _ in range(_STEPS_TO_TRY):
        with counted_calls() as in_step:
            was_reset = experiments.step()
        if not was_reset:
            return in_step
    return Counter()


def decimation_findings(examination: Examination) -> list[Finding]:
    """Check that the number of times a step of the environment applies actions matches its decimation.

    If the environment calls the hooks, the sub-steps are known. Otherwise, calls of functions are counted that do all
    the work of apply_actions() and that no other stage calls. If the step does not call them, there is no finding.
    """
    experiments, env, sub_steps = examination.experiments, examination.env, examination.evidence.sub_steps
    stated = validated_decimation(env)
    if sub_steps:
        counted: int | None = Counter(sub_steps).most_common(1)[0][0]
    else:
        counted = _ratio(_calls_of_apply_actions(experiments), examination.calls_in_a_step)
    if counted is None or counted == stated:
        return []
    return [
        Finding.of(
            FindingKind.WRONG_DECIMATION,
            "env.decimation",
            f"is {stated}, but a step of the environment applies actions {counted} times",
            _defined_at(env),
            f"type(env).decimation = property(lambda self: {counted})",
        )
    ]


def _calls_of_apply_actions(experiments: Experiments) -> Calls:
    """Functions that do all the work of apply_actions() and that no other stage calls, with the number of calls."""
    env = experiments.env
    with experiments.trial():
        with counted_calls() as elsewhere:
            actions = experiments.stages.act(experiments.stages.observe())
            env.process_actions(actions)
            with suppress(Exception):
                env.observations_reset()
        with counted_calls() as applying, _Callers() as callers:
            env.apply_actions()
    return Counter({code: applying[code] for code in callers.of_all if code not in elsewhere and applying[code]})


class _Callers(TorchDispatchMode):
    """Finds the user functions from which all torch operators are called, outermost first."""

    def __init__(self) -> None:
        super().__init__()
        self._stacks: list[list[types.CodeType]] = []

    @property
    def of_all(self) -> list[types.CodeType]:
        """The functions that every operator was called from, directly or not."""
        first = self._stacks[0] if self._stacks else []
        return [code for code in first if all(code in stack for stack in self._stacks)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note the callers of an operator, and run it."""
        self._stacks.append(calling_codes())
        return func(*args, **(kwargs or {}))


def _defined_at(env: ExportableEnvironment) -> str:
    return definition(getattr(type(env).decimation, "fget", None))


def _ratio(calls: Calls, in_step: Calls) -> int | None:
    for code, count in calls.items():
        if in_step[code]:
            return in_step[code] // count if in_step[code] % count == 0 else None
    return None


BEFORE = (stated_decimation_findings,)
ON_TRIAL = (decimation_findings,)
