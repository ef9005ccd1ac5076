"""The finding for differences between program and environment that no other finding explains."""

from collections.abc import Iterable

from exploy.capture.program import FrozenTensor
from exploy.diagnosis.detectors.changed_by_step import changed_by_step_findings
from exploy.diagnosis.detectors.python_state import iterator_findings
from exploy.diagnosis.detectors.unwritten_connections import unwritten_connection_findings
from exploy.diagnosis.evidence.outside_torch import launches
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.failure import guarded
from exploy.diagnosis.finding import Finding, FindingKind, Severity

_MAX_LISTED = 5


def unexplained_findings(examination: Examination) -> list[Finding]:
    """Results in which program and environment differ without an error that explains it."""
    difference = examination.difference
    is_explained = any(item.severity is Severity.ERROR for item in examination.findings)
    if is_explained or examination.program.random_operators:
        return []
    different = {
        name: item.first
        for name, item in examination.evidence.tally.outputs.items()
        if item.first is not None and not _reads_a_changed_constant(examination, name)
    }
    if not different and difference is None:
        return []
    named = [finding for detector in _CULPRITS for finding in guarded(detector, examination)]
    if named:
        return named
    name, *others = different or ["env"]
    what = "the captured program and the environment differ"
    what += f", first at {different[name]}" if different else f" while the simulator is not stepped: {difference}"
    what += f"; also different: {', '.join(others)}" if others else ""
    unnamed = (item for item in examination.program.frozen if item.live is not None)
    held = [item for item in unnamed if _is_read_by(examination, item, different)]
    if held:
        advice = (
            f"# compute the tensor that is read at {held[0].where} with torch operations, or store it in an attribute "
            "and register it; no attribute holds it, and the file keeps its value"
        )
        return [Finding.of(FindingKind.UNEXPLAINED, name, what, held[0].where, advice)]
    return [Finding.of(FindingKind.UNEXPLAINED, name, what, suggestion=_advice(examination))]


def kernel_findings(examination: Examination) -> list[Finding]:
    """Warp kernels that a policy step launches. Used where program and environment differ.

    Raises:
        Exception: Any error that the environment raises.
    """
    experiments = examination.experiments
    with experiments.trial(), launches(experiments) as launched:
        experiments.policy_step()
    advice = "# compute it with torch operators; or, if the robot measures it, launch the kernel in step() instead"
    return [
        Finding.of(
            FindingKind.OUTSIDE_TORCH,
            launch.kernel,
            f"the Warp kernel {launch} computes inside of the pipeline, which a capture cannot record",
            launch.where,
            advice,
        )
        for launch in dict.fromkeys(launched)
    ]


_CULPRITS = (unwritten_connection_findings, kernel_findings, iterator_findings, changed_by_step_findings)


def _advice(examination: Examination) -> str:
    changed = list(examination.evidence.python_after)[:_MAX_LISTED]
    if changed:
        return (
            f"# check Python values that changed, such as {', '.join(changed)}; then check closures and other processes"
        )
    return "# check for state that is neither in attributes nor in globals of its module: closures, other processes"


def _reads_a_changed_constant(examination: Examination, output: str) -> bool:
    """Whether an output depends on a tensor that was declared as a constant and has changed."""
    declared = (item for item in examination.program.frozen_and_weights if item.declared is not None)
    changed = (item for item in declared if item.name in examination.evidence.changes)
    return any(_is_read_by(examination, item, [output]) for item in changed)


def _is_read_by(examination: Examination, frozen: FrozenTensor, outputs: Iterable[str]) -> bool:
    """Whether one of some outputs depends on a frozen tensor."""
    steps = examination.program.sources
    return any(frozen.buffers & step[output].buffers for output in outputs for step in steps if output in step)
