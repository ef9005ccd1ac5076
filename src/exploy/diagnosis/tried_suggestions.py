"""Tries the code that findings suggest before it is shown.

The lines of all findings are pasted together, in a trial, and the environment is captured again. Code that does not
mend its finding is replaced by a comment that says what to do instead.
"""

import dataclasses
from functools import cached_property

from exploy.capture.capture import capture
from exploy.capture.program import Program
from exploy.capture.two_rates import OBSERVE
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.outputs_of_actions import outputs_of_actions
from exploy.diagnosis.evidence.roles import Role
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.diagnosis.pasting import is_code, paste
from exploy.environment.actor import unwrapped
from exploy.environment.components import Input, Memory, Output
from exploy.errors import ExployError

_MAX_CAPTURES = 32
_NOT_TRIED = (FindingKind.WRONG_NAMES, FindingKind.WRONG_DECIMATION)  # such a line sets what was counted
_HARMLESS = (Role.CONSTANT, Role.IRRELEVANT)


@dataclasses.dataclass(frozen=True)
class _Attempt:
    """The program that was captured with some suggestions pasted, and what these have added; or what went wrong."""

    program: Program | None = None
    added: dict[str, list[Input | Output]] = dataclasses.field(default_factory=dict)
    error: Exception | None = None


def with_tried_suggestions(examination: Examination) -> list[Finding]:
    """The findings, with a comment in place of code that does not mend its finding.

    Everything that is tried is undone. Nothing is tried if no finding has code.
    """
    wanted = [item for item in examination.findings if is_code(item.suggestion) and item.kind not in _NOT_TRIED]
    if not wanted:
        return examination.findings
    with examination.experiments.trial():
        refused = _Trial(examination, wanted).refused()
    return [
        dataclasses.replace(item, suggestion=refused[item.suggestion]) if item.suggestion in refused else item
        for item in examination.findings
    ]


class _Trial:
    """Finds the suggestions that do not mend their findings, with as few captures as possible."""

    def __init__(self, examination: Examination, findings: list[Finding]):
        self._examination = examination
        self._findings: dict[str, list[Finding]] = {}
        for item in findings:
            self._findings.setdefault(item.suggestion, []).append(item)
        self._accepted: list[str] = []
        self._program: Program | None = None  # with those that were accepted
        self._captures = 0

    def refused(self) -> dict[str, str]:
        """What to say instead, by suggestion.

        If the suggestions together raise an error, they are halved until those that raise it are found. If the
        environment cannot be captured any more without them either, nothing is known about them.
        """
        refused: dict[str, str] = {}
        groups = [list(self._findings)]
        while groups:
            group = groups.pop(0)
            attempt = self._attempt(group, self._accepted)
            if attempt.program is not None:
                lost = {item: self._comment(item, attempt) for item in group if not self._mends(item, attempt)}
                refused |= lost
                self._accepted += [item for item in group if item not in lost]
                self._program = attempt.program
            elif self._without is None:
                return {}
            elif len(group) == 1:
                refused[group[0]] = self._comment(group[0], attempt)
            else:
                ordered = sorted(group, key=self._size, reverse=True)  # a whole tensor goes before its parts
                groups[:0] = [ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]]
        return refused

    @cached_property
    def _without(self) -> Program | None:
        """The program without any suggestion; None if the environment cannot be captured any more."""
        return self._attempt([], []).program

    def _attempt(self, group: list[str], accepted: list[str]) -> _Attempt:
        """Paste suggestions on top of those that were accepted, and capture. All changes are undone."""
        if self._captures == _MAX_CAPTURES:
            return _Attempt(error=RuntimeError("too many suggestions fail to try this one"))
        self._captures += 1
        experiments = self._examination.experiments
        env, observations = experiments.env, experiments.observations
        try:
            with experiments.trial(), env.context_manager().registrations_undone():
                added = {item: paste(item, env, unwrapped(experiments.actor)) for item in (*accepted, *group)}
                experiments.policy_step()  # fills caches, and shows whether the pipeline keeps what was replaced
                program = capture(env, experiments.actor)
                if any(self._replaces_a_value(item) for item in group):
                    experiments.step()
                    _fetch(experiments)
                return _Attempt(program, added)
        except Exception as error:
            return _Attempt(error=error)
        finally:
            experiments.observations = observations

    def _replaces_a_value(self, suggestion: str) -> bool:
        return any(item.kind is FindingKind.PYTHON_STATE for item in self._findings[suggestion])

    def _size(self, suggestion: str) -> int:
        """Number of elements that a suggestion registers; 0 if it raises an error."""
        experiments = self._examination.experiments
        try:
            with experiments.trial(), experiments.env.context_manager().registrations_undone():
                added = paste(suggestion, experiments.env, unwrapped(experiments.actor))
                return sum(item.fetch().numel() for item in added)
        except Exception:
            return 0

    def _mends(self, suggestion: str, attempt: _Attempt) -> bool:
        program, added = attempt.program, attempt.added.get(suggestion, [])
        assert program is not None
        inputs = [item for item in added if isinstance(item, Input)]
        if inputs and not any(_is_read(program, item) for item in inputs):
            return False
        outputs = {item.output_name for item in added if isinstance(item, Output) and not isinstance(item, Memory)}
        if not outputs <= outputs_of_actions(program):
            return False
        return not any(self._remains(item, program) for item in self._findings[suggestion])

    def _remains(self, finding: Finding, program: Program) -> bool:
        """Whether a program still draws the random numbers or stores the tensor that a finding is about."""
        if finding.kind is FindingKind.RANDOM:
            return any(item.stage == OBSERVE for item in program.random_operators)
        roles = self._examination.roles
        frozen = [item.name for item in program.frozen_and_weights if item.declared is None]
        return any(_is_about(finding.tensor, name) for name in frozen if roles.get(name) not in _HARMLESS)

    def _comment(self, suggestion: str, attempt: _Attempt) -> str:
        """What to do instead of a suggestion, and why."""
        known = self._examination.otherwise.get(suggestion)
        if known is not None:
            return known
        finding, error = self._findings[suggestion][0], attempt.error
        tensor, kind = finding.tensor, "Memory" if "Memory(" in suggestion else "Input"
        if self._is_mended_by_others(finding):
            return f"# {tensor} needs no line of its own: other lines that are suggested register its memory"
        if isinstance(error, ExployError):
            return f"# to register {tensor} is not enough; it raises: {_in_one_line(error)}"
        if error is not None:
            reason = f"to register {tensor} raises {type(error).__name__} ({_in_one_line(error)})"
        else:
            reason = f"{tensor} does not give the tensor that the environment reads; a property may copy it"
        return (
            f"# {reason}. Store one tensor in an attribute, write new values into it with copy_(), read that, and "
            f"register it: {kind}(…)"
        )

    def _is_mended_by_others(self, finding: Finding) -> bool:
        """Whether the suggestions that were accepted mend a finding that is there without them."""
        if not self._accepted or self._program is None or self._without is None:
            return False
        return self._remains(finding, self._without) and not self._remains(finding, self._program)


def _fetch(experiments: Experiments) -> None:
    for component in experiments.env.context_manager().get_input_components():
        experiments.fetch(component)


def _is_read(program: Program, component: Input) -> bool:
    """Whether a result depends on an input; the output of a memory itself does not count."""
    own = component.output_name if isinstance(component, Memory) else None
    results = [(name, sources) for step in program.sources for name, sources in step.items()]
    return any(component.input_name in sources.inputs for name, sources in results if name != own)


def _is_about(tensor: str, frozen: str) -> bool:
    """Whether a finding about a tensor, a slice of it or a container is about a frozen tensor."""
    is_slice = tensor.startswith(f"{frozen}[") and ":" in tensor[len(frozen) :]
    return tensor == frozen or is_slice or frozen.startswith(f"{tensor}[")


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
