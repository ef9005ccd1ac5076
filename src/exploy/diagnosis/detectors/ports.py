"""Findings about Inputs, Outputs and Memories: detached, unused, constant, carried."""

import torch

from exploy.capture.program import ACTIONS, FrozenTensor, Sources
from exploy.diagnosis.detectors.cached_observations import is_cached_observation
from exploy.diagnosis.evidence.fresh_calls import fresh_call
from exploy.diagnosis.evidence.moved_by_actions import moved_by_actions
from exploy.diagnosis.evidence.outputs_of_actions import outputs_of_actions
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.environment.components import Input, Memory, Output
from exploy.live.geometry import Geometry, has_memory
from exploy.live.location import definition

_MOST_PATHS = 3


def port_findings(examination: Examination) -> list[Finding]:
    """All findings about the ports of the program."""
    return [
        *_unread(examination),
        *_constant_outputs(examination),
        *_unused_actions(examination),
        *_carried(examination),
        *_unread_constants(examination),
    ]


def detached_inputs(examination: Examination, suspects: list[FrozenTensor]) -> dict[str, str]:
    """Detached Inputs with the same value as a frozen tensor: name of the Input by name of the tensor."""
    twins: dict[str, str] = {}
    for item in examination.experiments.env.context_manager().get_input_components():
        value = examination.experiments.fetch(item)
        if value is None or not _is_detached(examination, item):
            continue
        for frozen in suspects:
            live = examination.experiments.live(frozen)
            if isinstance(live, torch.Tensor) and live.shape == value.shape and torch.equal(live, value):
                twins.setdefault(frozen.name, item.name)
    return twins


# -- inputs -----------------------------------------------------------------------------------------------------------


def _unread(examination: Examination) -> list[Finding]:
    findings = []
    for item in examination.experiments.env.context_manager().get_input_components():
        own = item.output_name if isinstance(item, Memory) else None
        if item.input_name in _sources(examination, leave_out=own).inputs:
            continue
        where = definition(item.get_from_env_cb)
        if _is_detached(examination, item):
            findings.append(_detached(examination, item, where))
        else:
            what = "it is not read" + ("" if own else "; the export leaves it out")
            advice = f"# remove {item}, or make its callback return the tensor that the environment reads"
            findings.append(Finding.of(FindingKind.UNUSED, item.input_name, what, where, advice))
    return findings


def _detached(examination: Examination, item: Input, where: str) -> Finding:
    kind = "Memory" if isinstance(item, Memory) else "Input"
    what = "its callback returns a new tensor at each call, which is not read"
    held = _tensors_like(examination, item.fetch())
    suggestion = f"# make the callback of {item} return the tensor that the environment reads"
    if len(held) == 1:
        suggestion = examination.or_else(examination.suggest(kind, held[0], item.name), suggestion)
    elif kind == "Input" and (call := fresh_call(examination.experiments, item)) is not None:
        line = f'Input(name="{item.name}", call={call[1]})'
        suggestion = examination.or_else("\n".join([*examination.imports(call[0]), line]), suggestion)
    return Finding.of(FindingKind.DETACHED, item.input_name, what, where, suggestion)


def _is_detached(examination: Examination, item: Input) -> bool:
    one, two = examination.experiments.fetch(item), examination.experiments.fetch(item)
    if one is None or two is None:
        return False
    return has_memory(one) and has_memory(two) and not _share_memory(one, two)


def _tensors_like(examination: Examination, value: torch.Tensor) -> list[str]:
    """Paths of frozen tensors that are equal to a tensor."""
    attr_paths = []
    for frozen in examination.program.frozen:
        live = examination.experiments.live(frozen)
        if frozen.live is None and isinstance(live, torch.Tensor):
            attr_paths += [frozen.name] if live.shape == value.shape and torch.equal(live, value) else []
    return attr_paths


# -- outputs ----------------------------------------------------------------------------------------------------------


def _constant_outputs(examination: Examination) -> list[Finding]:
    """Outputs that never change. This is fine next to Outputs that follow the actions, as for a zero effort target."""
    is_fine, stored = _follows_actions(examination), examination.program.frozen_and_weights
    what = "depends on no Input and no Memory, so it is the same at each step"
    findings = [
        Finding(
            FindingKind.CONSTANT_OUTPUT,
            Severity.INFO if is_fine else Severity.WARNING,
            item.output_name,
            definition(item.get_from_env_cb),
            what,
            _advice_for_constant(item) if is_fine else _advice_for_wrong(examination, item),
        )
        for item in _constant(examination)
        if not (_is_declared(examination, item) or (is_fine and _is_made_of_declared(examination, item)))
    ]
    return findings + [
        Finding.of(
            FindingKind.CONSTANT_OUTPUT, name, what, suggestion="# register the tensors that the observations read"
        )
        for name in (ACTIONS, *examination.program.observation_outputs)
        if _is_constant(examination, name) and not any(is_cached_observation(examination, item) for item in stored)
    ]


def _constant(examination: Examination) -> list[Output]:
    return [item for item in _outputs(examination) if _is_constant(examination, item.output_name)]


def _outputs(examination: Examination) -> list[Output]:
    """All Outputs that are not Memories."""
    outputs = examination.experiments.env.context_manager().get_output_components()
    return [item for item in outputs if not isinstance(item, Memory)]


def _is_constant(examination: Examination, name: str) -> bool:
    sources = _sources_of(examination, name)
    return not sources.inputs and not sources.random


def _sources_of(examination: Examination, name: str) -> Sources:
    default, sub_step = examination.program.sources
    return default[name] | sub_step.get(name, Sources())


def _follows_actions(examination: Examination) -> bool:
    """Whether any Output depends on the actions."""
    names = outputs_of_actions(examination.program)
    return any(item.output_name in names for item in _outputs(examination))


def _is_declared(examination: Examination, item: Output) -> bool:
    """Whether the user declared the tensor of an Output as a constant."""
    constants = examination.experiments.env.context_manager().get_constants()
    return any(_share_memory(item.fetch(), constant.fetch()) for constant in constants)


def _is_made_of_declared(examination: Examination, item: Output) -> bool:
    """Whether the user declared all tensors that an Output is computed from as constants."""
    frozen = examination.program.frozen_and_weights
    declared = {name for tensor in frozen if tensor.declared is not None for name in tensor.buffers}
    read = _sources_of(examination, item.output_name).buffers
    return bool(read) and read <= declared


def _share_memory(one: torch.Tensor, two: torch.Tensor) -> bool:
    return has_memory(one) and has_memory(two) and Geometry.of(one).overlaps(Geometry.of(two))


def _advice_for_constant(item: Output) -> str:
    return (
        f"# if {item} is meant to be constant, declare its tensor with add_constant(); else make its callback return "
        "the tensor that apply_actions() writes"
    )


def _advice_for_wrong(examination: Examination, item: Output) -> str:
    moved = moved_by_actions(examination.experiments)
    alike = [attr_path for attr_path, shape in moved.items() if shape == tuple(item.value.shape)]
    found = f"; the actions change {', '.join(alike[:_MOST_PATHS])}" if alike else ""
    return f"# make the callback of {item} return the tensor that apply_actions() writes{found}"


def _unused_actions(examination: Examination) -> list[Finding]:
    if _follows_actions(examination):
        return []
    moved = list(moved_by_actions(examination.experiments))
    suggestion = "# register what apply_actions() writes as an Output"
    if moved:
        suggestion = examination.or_else(examination.suggest("Output", moved[0]), suggestion)
    what = "no Output depends on them, so the file only returns the raw actions"
    where = definition(type(examination.experiments.env).process_actions)
    return [Finding.of(FindingKind.UNUSED, ACTIONS, what, where, suggestion)]


# -- memories and constants -------------------------------------------------------------------------------------------


def _carried(examination: Examination) -> list[Finding]:
    what = "made at the policy step and read at sub-steps; the file carries it as"
    return [
        Finding.of(FindingKind.CARRIED, memory.attr_path or memory.name, f"{what} memory.{memory.name}", memory.where)
        for memory in examination.program.memories
        if memory.carried and memory.input_name in _sources(examination, leave_out=memory.output_name).inputs
    ]


def _unread_constants(examination: Examination) -> list[Finding]:
    read = {frozen.declared for frozen in examination.program.frozen_and_weights}
    outputs = [item.fetch() for item in _constant(examination)]
    return [
        Finding.of(
            FindingKind.UNUSED,
            constant.name,
            "declared as a constant, but the tensor that its callback returns is not read",
            definition(constant.get_from_env_cb),
            f"# remove {constant}, or make its callback return the tensor that the environment reads",
        )
        for constant in examination.experiments.env.context_manager().get_constants()
        if constant.name not in read and not any(_share_memory(constant.fetch(), output) for output in outputs)
    ]


def _sources(examination: Examination, leave_out: str | None) -> Sources:
    """The sources of all results except one."""
    found = Sources()
    for step in examination.program.sources:
        for name, sources in step.items():
            if name != leave_out:
                found |= sources
    return found


ON_TRIAL = (port_findings,)
