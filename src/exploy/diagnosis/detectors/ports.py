"""Findings about Inputs, Outputs and Memories: detached, unused, constant, carried."""

import torch

from exploy.capture.program import ACTIONS, FrozenTensor, Sources
from exploy.diagnosis.case import Case
from exploy.diagnosis.evidence.moved_by_actions import moved_by_actions
from exploy.diagnosis.finding import Finding, Kind
from exploy.environment.components import Input, Memory, Output
from exploy.live.geometry import Geometry, has_memory
from exploy.live.location import definition


def port_findings(case: Case) -> list[Finding]:
    """What is to be said about the ports of the program."""
    return [*_unread(case), *_constant_outputs(case), *_unused_actions(case), *_carried(case), *_unread_constants(case)]


def detached_twins(case: Case, suspects: list[FrozenTensor]) -> dict[str, str]:
    """Detached Inputs that have the value of a frozen tensor: the Input's name by that of the tensor."""
    twins: dict[str, str] = {}
    for item in case.experiments.env.context_manager().get_input_components():
        value = case.experiments.fetch(item)
        if value is None or not _is_detached(case, item):
            continue
        for frozen in suspects:
            live = case.experiments.live(frozen)
            if isinstance(live, torch.Tensor) and live.shape == value.shape and torch.equal(live, value):
                twins.setdefault(frozen.name, item.name)
    return twins


# -- inputs -----------------------------------------------------------------------------------------------------------


def _unread(case: Case) -> list[Finding]:
    findings = []
    for item in case.experiments.env.context_manager().get_input_components():
        own = item.output_name if isinstance(item, Memory) else None
        if item.input_name in _sources(case, leave_out=own).inputs:
            continue
        where = definition(item.get_from_env_cb)
        if _is_detached(case, item):
            findings.append(_detached(case, item, where))
        else:
            what = "nothing reads it" + ("" if own else "; the export leaves it out")
            advice = f"# remove {item}, or let its callback return the tensor that the environment reads"
            findings.append(Finding.of(Kind.UNUSED, item.input_name, what, where, advice))
    return findings


def _detached(case: Case, item: Input, where: str) -> Finding:
    kind = "Memory" if isinstance(item, Memory) else "Input"
    what = "its callback makes a new tensor at each call, which nothing reads"
    held = _tensors_like(case, item.fetch())
    if len(held) == 1:
        suggestion = case.suggest(kind, held[0], item.name)
    else:
        suggestion = f"# let the callback of {item} return the tensor that the environment itself reads"
    return Finding.of(Kind.DETACHED, item.input_name, what, where, suggestion)


def _is_detached(case: Case, item: Input) -> bool:
    one, two = case.experiments.fetch(item), case.experiments.fetch(item)
    if one is None or two is None:
        return False
    return has_memory(one) and has_memory(two) and not Geometry.of(one).overlaps(Geometry.of(two))


def _tensors_like(case: Case, value: torch.Tensor) -> list[str]:
    """Paths of frozen tensors with the value of a tensor."""
    paths = []
    for frozen in case.program.frozen:
        live = case.experiments.live(frozen)
        if frozen.live is None and isinstance(live, torch.Tensor):
            paths += [frozen.name] if live.shape == value.shape and torch.equal(live, value) else []
    return paths


# -- outputs ----------------------------------------------------------------------------------------------------------


def _constant_outputs(case: Case) -> list[Finding]:
    constant = [
        item
        for item in case.experiments.env.context_manager().get_output_components()
        if not isinstance(item, Memory) and _is_constant(case, item.output_name)
    ]
    findings = [_constant_output(case, item) for item in constant]
    what = "depends on no Input and no Memory, so that it is the same at each step"
    return findings + [
        Finding.of(Kind.CONSTANT_OUTPUT, name, what, suggestion="# register the tensors that the observations read")
        for name in case.program.default_outputs[:2]
        if _is_constant(case, name)
    ]


def _is_constant(case: Case, name: str) -> bool:
    default, sub_step = case.program.sources
    sources = default[name] | sub_step.get(name, Sources())
    return not sources.inputs and not sources.random


def _constant_output(case: Case, item: Output) -> Finding:
    what = "depends on no Input and no Memory, so that it is the same at each step"
    moved = [path for path, shape in moved_by_actions(case.experiments).items() if shape == tuple(item.value.shape)]
    suggestion = f"# let the callback of {item} return the tensor that apply_actions() writes"
    if moved:
        suggestion = case.suggest("Output", moved[0], item.name)
    return Finding.of(Kind.CONSTANT_OUTPUT, item.output_name, what, definition(item.get_from_env_cb), suggestion)


def _unused_actions(case: Case) -> list[Finding]:
    outputs = case.experiments.env.context_manager().get_output_components()
    if any(not _is_constant(case, item.output_name) for item in outputs if not isinstance(item, Memory)):
        return []
    moved = list(moved_by_actions(case.experiments))
    suggestion = case.suggest("Output", moved[0]) if moved else "# register what apply_actions() writes as an Output"
    what = "no Output takes them up, so that the file gives the raw actions only"
    where = definition(type(case.experiments.env).process_actions)
    return [Finding.of(Kind.UNUSED, ACTIONS, what, where, suggestion)]


# -- memories and constants -------------------------------------------------------------------------------------------


def _carried(case: Case) -> list[Finding]:
    what = "made at the policy step and read at sub-steps; the file carries it as"
    return [
        Finding.of(Kind.CARRIED, memory.path or memory.name, f"{what} memory.{memory.name}", memory.where)
        for memory in case.program.memories
        if memory.carried and memory.input_name in _sources(case, leave_out=memory.output_name).inputs
    ]


def _unread_constants(case: Case) -> list[Finding]:
    read = {frozen.declared for frozen in case.program.stored}
    return [
        Finding.of(
            Kind.UNUSED,
            constant.name,
            "declared as a constant, but nothing reads the tensor that its callback returns",
            definition(constant.get_from_env_cb),
            f"# remove {constant}, or let its callback return the tensor that the environment reads",
        )
        for constant in case.experiments.env.context_manager().get_constants()
        if constant.name not in read
    ]


def _sources(case: Case, leave_out: str | None) -> Sources:
    """What all results but one are computed from."""
    found = Sources()
    for path in case.program.sources:
        for name, sources in path.items():
            if name != leave_out:
                found |= sources
    return found
