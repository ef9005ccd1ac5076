"""The finding for results that the steps of the check could not compare."""

from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.live.location import definition


def uncompared_findings(examination: Examination) -> list[Finding]:
    """Results of the program that no step of the environment has shown, for example torques of sub-steps.

    An evaluation is incomplete then. The file may still be right, so this is only mentioned.
    """
    missing = examination.not_compared
    if not missing:
        return []
    what = f"{', '.join(missing)} could not be compared with step() ({next(iter(missing.values()))})"
    what += "; an evaluation will be incomplete"
    advice = "# call the evaluation hooks in step(), or let it call the functions that the stages call"
    where = definition(type(examination.env).step)
    return [Finding(FindingKind.NOT_OBSERVED, Severity.INFO, "env.step()", where, what, advice)]


ON_TRIAL = (uncompared_findings,)
