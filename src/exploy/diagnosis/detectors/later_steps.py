"""Findings about policy steps that do something else than the first ones did, found by a long run of the pipeline."""

from exploy.diagnosis.evidence.long_run import POLICY_STEPS, Deviation
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.live.location import UNKNOWN, raising_line


def later_findings(examination: Examination) -> list[Finding]:
    """A step that differs from the program, unless another finding explains it; must be called after the detectors."""
    run, ended_by = examination.long_run, examination.resets.ended_by
    if run.deviation is not None and run.deviation.random != UNKNOWN:
        return [_random(run.deviation)]
    if run.deviation is not None:
        return [] if _is_explained(examination, run.deviation) else [_other_code(run.deviation)]
    if run.error is None:
        return [] if ended_by is None else [_ended(examination, ended_by)]
    what = f"raised {type(run.error).__name__} in policy step {run.steps} without the simulator ({run.error})"
    what += f"; Python state with longer periods was not looked for (up to {POLICY_STEPS} steps otherwise)"
    return [Finding(FindingKind.NOT_OBSERVED, Severity.INFO, "env", "", what, "")]


def _ended(examination: Examination, error: Exception) -> Finding:
    what = f"raised {type(error).__name__} in step {examination.steps_watched + 1} ({error})"
    what += "; what changes later was not seen"
    return Finding(FindingKind.NOT_OBSERVED, Severity.INFO, "env.step()", raising_line(error), what, "")


def _is_explained(examination: Examination, deviation: Deviation) -> bool:
    """Whether the steps that were watched differ as well, or an error names what the step has changed or read."""
    if examination.difference is not None or examination.evidence.tally.mismatches:
        return True
    changed = {item.frozen.name for item in examination.long_run.changes} | deviation.python.keys()
    named = [item.tensor for item in examination.findings if item.severity is Severity.ERROR]
    return any(_is_part_of(one, two) or _is_part_of(two, one) for one in changed for two in named)


def _is_part_of(attr_path: str, other: str) -> bool:
    """Whether a path is another one, or leads to an attribute or item of what is there."""
    return attr_path == other or attr_path.startswith((f"{other}.", f"{other}["))


def _random(deviation: Deviation) -> Finding:
    operator, _, where = deviation.random.partition(" at ")
    what = f"{_when(deviation)}, random numbers are drawn with {operator}; not before"
    return Finding.of(FindingKind.RANDOM, "env", what, where, "# disable noise before exporting, in prepare_export()")


def _other_code(deviation: Deviation) -> Finding:
    where = "" if deviation.where == UNKNOWN else deviation.where
    what = f"{_when(deviation)}, code runs that the captured program does not contain: {deviation.what}"
    advice = "# keep what decides this in a tensor, use torch.where() for an if, and register it: Memory(…) or Input(…)"
    return Finding.of(FindingKind.UNEXPLAINED, "env", what, where, advice)


def _when(deviation: Deviation) -> str:
    return f"in policy step {deviation.step} of the pipeline without the simulator"
