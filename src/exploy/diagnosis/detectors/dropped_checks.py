"""Findings about checks of values that the file does not make."""

from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind


def dropped_check_findings(examination: Examination) -> list[Finding]:
    """Lines that raise an error or print if values are wrong, such as `assert not torch.isnan(obs).any()`."""
    what = "this line checks values and raises or prints; the file does not"
    return [Finding.of(FindingKind.DROPPED_CHECK, "env", what, line) for line in examination.program.dropped_checks]


ON_TRIAL = (dropped_check_findings,)
