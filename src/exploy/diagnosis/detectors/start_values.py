"""Findings about the values that memories start from."""

import numpy as np

from exploy.capture.initial_memory import actor_memories
from exploy.capture.program import ProgramMemory
from exploy.comparison import Difference, difference
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.environment.tensor_copies import to_numpy

_TOLERANCE = 1e-5


def start_findings(examination: Examination) -> list[Finding]:
    """Memories whose stored start value is not the one after a reset, or that have no constant one.

    A stored value that differs is an error if an export will store it for certain. A check that was not told what the
    export will store only mentions it, since `exploy.export()` takes the value after a reset. Two resets are looked at.
    Left out are memories that the user has named, those whose start value has no influence, and states of the actor.

    Raises:
        Exception: Whatever the environment has raised.
    """
    resets, memories = examination.resets, _memories(examination)
    if examination.evidence.error is not None:
        return []
    if resets.error is not None:
        raise resets.error
    if not resets.starts:
        return [_no_reset(examination, memories)]
    first, second = resets.starts[0], resets.starts[-1]
    severity = Severity.ERROR if examination.starts.is_stated else Severity.INFO
    found = (_finding(memory, first.get(name), second.get(name), severity) for name, memory in memories.items())
    return [finding for finding in found if finding is not None]


def _no_reset(examination: Examination, memories: dict[str, ProgramMemory]) -> Finding:
    within = examination.starts.reset_within
    what = f"no reset in the {examination.evidence.steps} steps watched, and none in {within} more"
    what += "; what only a reset changes was not seen"
    what += f", and the start values of {', '.join(memories)} were not checked" if memories else ""
    advice = "# implement reset(), or pass a larger reset_within="
    return Finding.of(FindingKind.NO_RESET_SEEN, "env", what, "", advice)


def _memories(examination: Examination) -> dict[str, ProgramMemory]:
    program, experiments = examination.program, examination.experiments
    left_out = {*examination.starts.given, *actor_memories(experiments.env, experiments.actor)}
    used = set(program.used_inputs)
    return {
        memory.name: memory
        for memory in program.memories
        if not memory.carried and memory.name not in left_out and memory.input_name in used
    }


def _finding(
    memory: ProgramMemory, first: np.ndarray | None, second: np.ndarray | None, severity: Severity
) -> Finding | None:
    """What is wrong with a start value.

    Args:
        memory: The memory.
        first: Its value after a reset.
        second: Its value after another one.
        severity: How bad a stored value is that differs from both.
    """
    if first is None or second is None:
        return None
    between = difference(first, second, _TOLERANCE, _TOLERANCE)
    if between is not None:
        what = f"differs between two resets: {_shown(between, 'then', 'first')}; no stored value can be right each time"
        advice = (
            f"# set {memory.name} to a constant in each reset, register it as an Input, or name the start value: "
            f"initial_memory={{{memory.name!r}: …}}"
        )
        return Finding.of(FindingKind.NO_CONSTANT_START, memory.input_name, what, "", advice)
    stored = difference(first, to_numpy(memory.initial), _TOLERANCE, _TOLERANCE)
    if stored is None:
        return None
    what = f"the file would not start as the environment does: {_shown(stored, 'in the file', 'after a reset')}"
    advice = f'# export with initial_memory="reset" (the default of exploy.export()) or {{{memory.name!r}: …}}'
    return Finding(FindingKind.START_VALUE, severity, memory.input_name, "", what, advice)


def _shown(found: Difference, got: str, expected: str) -> str:
    return f"element {list(found.index)} is {_number(found.got)} {got}, {_number(found.expected)} {expected}"


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


ON_TRIAL = (start_findings,)
