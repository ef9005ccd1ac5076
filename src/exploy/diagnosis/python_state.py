"""Findings about Python numbers, flags and texts that the pipeline reads and that change as the environment moves."""

import torch

from exploy.diagnosis.calls import counted_calls, reading_line
from exploy.diagnosis.case import Case
from exploy.diagnosis.experiments import Experiments, Results, same_results
from exploy.diagnosis.finding import Finding, Kind
from exploy.exporter.capture.snapshot import Snapshot

_MAX_TRIALS = 200
_TOLERANCE = 1e-4  # a number in a tensor may have half the digits of one in Python


def python_findings(case: Case) -> list[Finding]:
    """Python values that changed during the steps, and whose old values give other results when they are put back."""
    experiments, evidence = case.experiments, case.evidence
    old = {path: evidence.python_before[path] for path in evidence.python_after}
    if not old:
        return []
    with experiments.trial() as snapshot:
        now = experiments.results_with({}, snapshot)
        if now is None or same_results(now, experiments.results_with(old, snapshot)):
            return []
        guilty = [
            path
            for path in list(old)[:_MAX_TRIALS]
            if not same_results(now, experiments.results_with({path: old[path]}, snapshot))
        ]
        return [_finding(case, path, now, snapshot) for path in guilty]


def _finding(case: Case, path: str, now: Results, snapshot: Snapshot) -> Finding:
    evidence = case.evidence
    before, after = evidence.python_before[path], evidence.python_after[path]
    kind = "Memory" if path in case.own_changes.python else "Input"
    return Finding.of(
        Kind.PYTHON_STATE,
        path,
        f"results depend on this Python value, which was {before!r} at export and later {after!r}; "
        f"the file keeps {before!r}",
        _read_at(case, path),
        _suggestion(case, path, kind, now, snapshot),
    )


def _read_at(case: Case, path: str) -> str:
    with case.experiments.trial(), counted_calls() as calls:
        case.experiments.policy_step()
    return reading_line(calls, path.rpartition(".")[2])


def _suggestion(case: Case, path: str, kind: str, now: Results, snapshot: Snapshot) -> str:
    if _works_as_tensor(case.experiments, path, now, snapshot):
        return f"{path} = torch.tensor({path})\n{case.suggest(kind, path)}"
    return (
        f"# keep {path} in a tensor, use torch operations on it (torch.where() for an if), and register it as an {kind}"
    )


def _works_as_tensor(experiments: Experiments, path: str, now: Results, snapshot: Snapshot) -> bool:
    value = experiments.resolve(path)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return same_results(now, experiments.results_with({path: torch.tensor(value)}, snapshot), _TOLERANCE)
