"""Findings about tensors that would be constants in the file."""

import numpy as np
import torch

from exploy.capture.program import FrozenTensor
from exploy.capture.sensitivity import Sensitivity
from exploy.diagnosis.detectors.cached_observations import cached_observation_finding, is_cached_observation
from exploy.diagnosis.detectors.ports import detached_inputs
from exploy.diagnosis.detectors.stale_cache import Refresh, find_refreshes, suggest_refresh
from exploy.diagnosis.evidence.outside_torch import Launch, written_outside_torch
from exploy.diagnosis.evidence.roles import Role
from exploy.diagnosis.evidence.rotation import Rotation, rotating_groups
from exploy.diagnosis.evidence.stepping import Change, values_at
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.live.geometry import Geometry
from exploy.live.location import UNKNOWN


def frozen_findings(examination: Examination) -> list[Finding]:
    """Unregistered inputs, missing memories, stale caches, and real constants."""
    refreshes = find_refreshes(examination.experiments, examination.probes)
    twins = detached_inputs(examination, examination.suspects)
    findings = _missing_memories(examination)
    for frozen in examination.program.frozen_and_weights:
        role = examination.roles.get(frozen.name)
        if role is Role.INPUT_OR_CACHE and frozen.name in refreshes:
            findings.append(_stale_cache(examination, frozen, refreshes[frozen.name]))
        elif is_cached_observation(examination, frozen):
            findings.append(cached_observation_finding(examination, frozen))
        elif role is Role.INPUT_OR_CACHE:
            findings.append(_unregistered_input(examination, frozen, twins.get(frozen.name)))
        elif role is Role.IRRELEVANT:
            findings.append(_constant(frozen, "changed, but no result depends on it"))
        elif role is Role.CONSTANT and not frozen.is_weight:
            findings.append(_constant(frozen, f"read but never changed in {_watched(examination)}"))
    return findings


def _constant(frozen: FrozenTensor, what: str) -> Finding:
    return Finding.of(FindingKind.FROZEN, _name(frozen), f"{what}; the file keeps its value", _where(frozen))


def _watched(examination: Examination) -> str:
    """What was watched: steps and resets."""
    steps, resets = examination.steps_watched, len(examination.resets.starts)
    return f"{steps} step{'s' if steps != 1 else ''} and {resets or 'no'} reset{'s' if resets != 1 else ''}"


def _missing_memories(examination: Examination) -> list[Finding]:
    """One finding for each memory, or for each group of tensors that the pipeline moves from place to place."""
    roles, stored = examination.roles, examination.program.frozen_and_weights
    missing = {item.name: item for item in stored if roles.get(item.name) is Role.MEMORY}
    outside = written_outside_torch(examination.experiments, list(missing.values()))
    findings = [_outside_torch(examination, missing.pop(name), found) for name, found in outside.items()]
    groups = rotating_groups(missing, examination.own_changes.rotations)
    return findings + [
        _missing_memory(examination, missing[group.attr_paths[0]])
        if len(group.attr_paths) == 1 and not group.shared
        else _rotating_memory(examination, group, next(missing[name] for name in group.attr_paths if name in missing))
        for group in groups
    ]


def _outside_torch(examination: Examination, frozen: FrozenTensor, launched: list[Launch]) -> Finding:
    kernels = [f"the Warp kernel {item}" for item in launched]
    writer = ", ".join(dict.fromkeys(kernels)) or "code outside of torch (numpy, Warp, an extension)"
    what = f"{writer} writes it inside of the pipeline, which a capture cannot record; the file keeps its value"
    advice = (
        f"# compute {_name(frozen)} with torch operators; or, if the robot measures it, write it in step() instead and "
        "register it: Input(…)"
    )
    where = launched[0].where if launched else _where(frozen)
    return Finding.of(FindingKind.OUTSIDE_TORCH, _name(frozen), what, where, advice)


def _rotating_memory(examination: Examination, group: Rotation, read: FrozenTensor) -> Finding:
    what = (
        f"its tensors move from place to place at each policy step, and {_name(read)} is read; the file would always "
        "read the values from the export"
    )
    name = group.container or group.attr_paths[0]
    if group.shared:
        what += f"; {', '.join(group.shared)} has one tensor in several places"
        advice = (
            f"# where {', '.join(group.shared)} is filled, give each place a tensor of its own with clone(); then "
            "register each place: Memory(…). An export with infer_memory=True does both"
        )
        return Finding.of(FindingKind.MISSING_MEMORY, name, what, _where(read), advice)
    lines = [examination.suggest("Memory", item) for item in group.attr_paths if not _is_registered(examination, item)]
    return Finding.of(FindingKind.MISSING_MEMORY, name, what, _where(read), "\n".join(lines))


def _is_registered(examination: Examination, attr_path: str) -> bool:
    live = examination.experiments.resolve(attr_path)
    inputs = map(examination.experiments.fetch, examination.env.context_manager().get_input_components())
    return any(item is not None and Geometry.of(item).overlaps(Geometry.of(live)) for item in inputs)


def _missing_memory(examination: Examination, frozen: FrozenTensor) -> Finding:
    what = "written in one policy step and read in the next; the file would always read the value from the export"
    return Finding.of(
        FindingKind.MISSING_MEMORY, _name(frozen), what, _where(frozen), _registration(examination, frozen, "Memory")
    )


def _unregistered_input(examination: Examination, frozen: FrozenTensor, twin: str | None) -> Finding:
    if frozen.is_weight:
        suggestion = f"# disable updates of {frozen.name} in prepare_export(), or register it as an Input"
    elif twin is not None:
        suggestion = examination.suggest("Input", frozen.name, twin)
    else:
        suggestion = _registration(examination, frozen, "Input")
    return Finding.of(
        FindingKind.UNREGISTERED_INPUT, _name(frozen), _what_happened(examination, frozen), _where(frozen), suggestion
    )


def _stale_cache(examination: Examination, frozen: FrozenTensor, refresh: Refresh) -> Finding:
    what = f"{_what_happened(examination, frozen)} It is a cache that is computed again {refresh.condition}."
    suggestion = suggest_refresh(examination, refresh, _name(frozen))
    return Finding.of(FindingKind.STALE_CACHE, _name(frozen), what, _where(frozen), suggestion)


def _what_happened(examination: Examination, frozen: FrozenTensor) -> str:
    change = examination.evidence.changes[frozen.name]
    steps = examination.evidence.steps
    position = _first_read(examination, frozen, change)
    before, after = values_at(frozen, change.values[0], position)
    if change.when:
        return (
            f"changed {change.when}, not in the {steps} steps before: element {_index(frozen, position)} was "
            f"{_number(after)}; the file keeps {_number(before)}."
        )
    return (
        f"changed at {min(len(change.steps), steps)} of {steps} steps; at step {change.first_step}, element "
        f"{_index(frozen, position)} was {_number(after)}; the file keeps {_number(before)}."
    )


def _first_read(examination: Examination, frozen: FrozenTensor, change: Change) -> int:
    """The first element that had changed and that results depend on; the first that had changed if there is none."""
    values = change.values[0]
    changed = frozen.changed_elements(values) if values.shape == frozen.shape else None
    if changed is None:
        return change.first_position
    positions = np.flatnonzero(changed)
    sensitivity = Sensitivity(examination.program)
    first, last = 0, len(positions) - 1
    while first < last:  # the smallest number of elements from the front that results depend on
        middle = (first + last) // 2
        flags = np.zeros_like(changed)
        flags[positions[: middle + 1]] = True
        first, last = (first, middle) if sensitivity.depends_on(frozen, flags) else (middle + 1, last)
    return int(positions[first])


def _index(frozen: FrozenTensor, position: int) -> list[int]:
    """The index of an element: in the slice that is named, if one is."""
    index = [int(i) for i in np.unravel_index(position, frozen.shape)] if frozen.shape else []
    bounds = _bounds(frozen)
    if bounds is not None and len(bounds) == 1:
        index[-1] -= bounds[0][0]
    return index


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _where(frozen: FrozenTensor) -> str:
    return "" if frozen.where == UNKNOWN else frozen.where


def _name(frozen: FrozenTensor) -> str:
    if frozen.live is not None:
        return "a tensor that is not stored in an attribute"
    slices = _slices(frozen)
    return f"{frozen.name}{slices[0]}" if slices is not None and len(slices) == 1 else frozen.name


def _registration(examination: Examination, frozen: FrozenTensor, kind: str) -> str:
    if frozen.live is not None:
        return f"# store the tensor that is read at {frozen.where} in an attribute, and register it: {kind}(…)"
    if not _is_partly_registered(examination, frozen):
        is_memory = kind == "Memory"
        return (
            examination.suggest_memory(frozen, examination.experiments)
            if is_memory
            else examination.suggest(kind, frozen.name)
        )
    slices = _slices(frozen)
    if slices is None:
        return f"# register the rest of {frozen.name} too, or all of it as one {kind}"
    return "\n".join(examination.suggest(kind, f"{frozen.name}{part}") for part in slices)


def _is_partly_registered(examination: Examination, frozen: FrozenTensor) -> bool:
    live = examination.experiments.live(frozen)
    if frozen.elements is None or not isinstance(live, torch.Tensor):
        return False
    inputs = map(examination.experiments.fetch, examination.experiments.env.context_manager().get_input_components())
    return any(item is not None and Geometry.of(item).overlaps(Geometry.of(live)) for item in inputs)


def _slices(frozen: FrozenTensor) -> list[str] | None:
    """The frozen elements as slices of the last axis; None if all are frozen, or if slices cannot express them."""
    leading = ":, " * (len(frozen.shape) - 1)
    bounds = _bounds(frozen)
    return None if bounds is None else [f"[{leading}{start}:{stop}]" for start, stop in bounds]


def _bounds(frozen: FrozenTensor) -> list[tuple[int, int]] | None:
    """First and end index of the frozen elements along the last axis; None as for `_slices()`."""
    if frozen.elements is None or not frozen.shape:
        return None
    held = np.zeros(int(np.prod(frozen.shape)), dtype=bool)
    held[frozen.elements] = True
    rows = held.reshape(-1, frozen.shape[-1])
    if not (rows == rows[0]).all():
        return None
    edges = np.flatnonzero(np.diff(np.concatenate([[0], rows[0].astype(np.int8), [0]])))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


ON_TRIAL = (frozen_findings,)
