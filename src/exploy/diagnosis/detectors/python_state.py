"""Findings about Python numbers, flags and strings that the pipeline reads and that change between steps."""

import types
from collections.abc import Iterable

import numpy as np

from exploy.diagnosis.evidence.experiments import Results, class_that_holds, same_results, split_attr_path
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.live.attribute_paths import BOOKKEEPING
from exploy.live.attribute_reads import reading_line
from exploy.live.geometry import Geometry, has_memory
from exploy.live.out_of_reach import OutOfReach
from exploy.live.reached_code import codes_reached_from
from exploy.live.snapshot import Snapshot
from exploy.live.stage_functions import codes_called_by

_MAX_TRIALS = 200


def python_findings(examination: Examination) -> list[Finding]:
    """Python values that changed during the steps and that results depend on."""
    experiments, evidence = examination.experiments, examination.evidence
    moments = [evidence.python_after, *evidence.python_later]
    changed = dict.fromkeys(attr_path for values in moments for attr_path in values)
    before = {name: evidence.python_before[name] for name in changed if not _is_seen_by_torch(examination, name)}
    if not before:
        return []
    with experiments.trial() as snapshot:
        now = experiments.results_with({}, snapshot)
        again = experiments.results_with({}, snapshot)
        if now is None or again is None or not same_results(now, again):
            return []  # not everything can be restored, so results cannot be compared
        moments = [{name: value for name, value in values.items() if name in before} for values in moments]
        suspects = [values for values in (before, *moments) if _matters(examination, values, now, snapshot)]
        names = _guilty(examination, before, suspects, now, snapshot)
        guilty = {name: _later_value(examination, name, suspects, moments, now, snapshot) for name in names}
        if not guilty:
            return []
        codes = _codes(examination)
        return [
            _finding(examination, attr_path, after, reading_line(codes, _attribute(attr_path)))
            for attr_path, after in guilty.items()
        ]


def _guilty(
    examination: Examination,
    attr_paths: Iterable[str],
    suspects: list[dict[str, object]],
    now: Results,
    snapshot: Snapshot,
) -> list[str]:
    """The values that change results, found by halving the values that do so together."""
    trials = 0

    def matters(group: list[str]) -> bool:
        nonlocal trials
        trials += 1
        tried = [{name: item[name] for name in group if name in item} for item in suspects]
        return any(values and _matters(examination, values, now, snapshot) for values in tried)

    guilty: list[str] = []
    groups = [list(attr_paths)] if suspects else []
    while groups and trials < _MAX_TRIALS:
        group = groups.pop(0)
        if not matters(group):
            continue
        if len(group) == 1:
            guilty += group
        else:
            groups[:0] = [group[: len(group) // 2], group[len(group) // 2 :]]
    return guilty


def _later_value(
    examination: Examination,
    attr_path: str,
    suspects: list[dict[str, object]],
    moments: list[dict[str, object]],
    now: Results,
    snapshot: Snapshot,
) -> object:
    """A later value that changes results; any later value if only the one at the export does."""
    later = [values[attr_path] for values in moments if attr_path in values]
    tried = [
        values[attr_path] for values in suspects if any(values is item for item in moments) and attr_path in values
    ]
    return next((item for item in tried if _matters(examination, {attr_path: item}, now, snapshot)), later[0])


def _is_seen_by_torch(examination: Examination, attr_path: str) -> bool:
    """Whether a value is an array whose memory is a frozen tensor or a registered one."""
    array = examination.experiments.resolve(attr_path)
    if not isinstance(array, np.ndarray):
        return False
    if any(item.name == attr_path for item in examination.program.frozen_and_weights):
        return True
    start, stop = np.lib.array_utils.byte_bounds(array)
    inputs = map(examination.experiments.fetch, examination.env.context_manager().get_input_components())
    places = [Geometry.of(item) for item in inputs if item is not None and has_memory(item)]
    return any(place.start < stop and start < place.stop for place in places)


def _matters(examination: Examination, values: dict[str, object], now: Results, snapshot: Snapshot) -> bool:
    """Whether results change if values are set. An error counts as a change only for several values."""
    results = examination.experiments.results_with(values, snapshot)
    return len(values) > 1 if results is None else not same_results(now, results)


def _finding(examination: Examination, attr_path: str, after: object, where: str) -> Finding:
    before = examination.evidence.python_before[attr_path]
    what = f"results depend on this Python value, which changed from {before!r} at export to {after!r}"
    kind = "Memory" if attr_path in examination.own_changes.python else "Input"
    advice = "use torch operations on it (torch.where() for an if)"
    suggestion = f"# keep {attr_path} in a tensor, {advice}, and register it: {kind}(…)"
    if isinstance(before, int | float | np.number) and not isinstance(before, bool):
        statement = f"{_target(examination, attr_path)} = torch.tensor({attr_path})"
        component = examination.suggest(kind, attr_path, with_imports=False)
        code = "\n".join([*examination.imports(attr_path), statement, component])
        suggestion = examination.or_else(code, suggestion)
    return Finding.of(FindingKind.PYTHON_STATE, attr_path, f"{what}; the file keeps {before!r}", where, suggestion)


def _target(examination: Examination, attr_path: str) -> str:
    """The expression to assign to: the attribute of the class, if that is where a value is."""
    holder, key = split_attr_path(attr_path)
    is_of_class = class_that_holds(examination.experiments.resolve(holder), key) is not None
    return f"type({holder}).{key}" if is_of_class else attr_path


def iterator_findings(examination: Examination) -> list[Finding]:
    """Generators and iterators that a policy step advances. Used where program and environment differ.

    Raises:
        Exception: Any error that the environment raises.
    """
    experiments = examination.experiments
    state = OutOfReach(experiments.roots)
    with experiments.trial():
        experiments.policy_step()
    advanced = state.advanced_iterators()
    codes = _codes(examination) if advanced else []
    what = "a generator or iterator that the pipeline advances; the file keeps the value that it gave at the export"
    advice = "keep its values in a tensor, and the index of the current one in an integer tensor: Memory(…)"
    return [
        Finding.of(
            FindingKind.PYTHON_STATE,
            item,
            what,
            reading_line(codes, _attribute(item)),
            f"# instead of {item}, {advice}",
        )
        for item in advanced
    ]


def _codes(examination: Examination) -> list[types.CodeType]:
    """The functions that a policy step calls, then all others that environment and actor lead to."""
    experiments = examination.experiments
    with experiments.trial():
        called = codes_called_by(experiments.policy_step)
    return [*called, *codes_reached_from(experiments.roots, skip=BOOKKEEPING)]


def _attribute(attr_path: str) -> str:
    """The last attribute of a path, without the keys behind it."""
    while attr_path.endswith("]"):
        attr_path, _ = split_attr_path(attr_path)
    return attr_path.rpartition(".")[2]


ON_TRIAL = (python_findings,)
