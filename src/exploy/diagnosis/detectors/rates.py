"""Findings about the decimation: how many times a step of the environment applies actions."""

from collections import Counter

from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.validation import validated_decimation
from exploy.errors import InvalidEnvironmentError
from exploy.live.location import definition


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


def decimation_findings(examination: Examination) -> list[Finding]:
    """Check that the number of times a step of the environment applies actions matches its decimation.

    If the environment calls the hooks, the sub-steps are known. Otherwise, calls of functions were counted that do all
    the work of apply_actions() and that no other stage calls. If the step does not call them, there is no finding.
    """
    env, sub_steps = examination.env, examination.evidence.sub_steps
    stated = validated_decimation(env)
    counted = Counter(sub_steps).most_common(1)[0][0] if sub_steps else stated
    if counted == stated:
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


def _defined_at(env: ExportableEnvironment) -> str:
    return definition(getattr(type(env).decimation, "fget", None))


BEFORE = (stated_decimation_findings,)
ON_TRIAL = (decimation_findings,)
