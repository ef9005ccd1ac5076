"""Checks an environment before it is exported."""

import re
from collections.abc import Callable
from typing import TypeVar

import torch

from exploy.diagnosis.case import Case
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.diagnosis.experiments import Experiments
from exploy.diagnosis.finding import Finding, Kind, Severity
from exploy.diagnosis.frozen_state import frozen_findings
from exploy.diagnosis.late_state import late_findings, standing_still_difference
from exploy.diagnosis.pipeline_alone import changes_of_pipeline
from exploy.diagnosis.ports import port_findings
from exploy.diagnosis.program_session import ProgramSession
from exploy.diagnosis.python_state import python_findings
from exploy.diagnosis.python_values import PythonValues
from exploy.diagnosis.randomness import random_findings
from exploy.diagnosis.rates import calls_in_a_step, decimation_findings
from exploy.diagnosis.roles import roles
from exploy.diagnosis.stale_cache import probe
from exploy.diagnosis.stepping import Evidence, step_and_watch
from exploy.diagnosis.values import finite_findings, name_findings
from exploy.errors import EnvironmentError, ExployError
from exploy.exporter.capture.capture import ONE_AT_A_TIME, capture
from exploy.exporter.capture.garbage import no_garbage_collection
from exploy.exporter.capture.location import UNKNOWN, definition, raising_line
from exploy.exporter.capture.program import Program
from exploy.exporter.core.actor import ExportableActor, make_exportable_actor
from exploy.exporter.core.environment_checks import checked_decimation, checked_observation_names
from exploy.exporter.core.evaluation_mode import evaluation_mode
from exploy.exporter.core.exportable_environment import ExportableEnvironment

DEFAULT_STEPS = 20
_MAX_LISTED = 5
Subject = TypeVar("Subject")

_PLACE = re.compile(r"^(?P<where>[^\n]+?:\d+ \(in [^)]*\)): (?P<message>.*)$", re.DOTALL)


def check_environment(
    env: ExportableEnvironment, actor: torch.nn.Module, steps: int = DEFAULT_STEPS, *, allow_random: bool = False
) -> Diagnosis:
    """Find what would go wrong in an export: state that would be frozen, forgotten or random, and more.

    Captures the environment after `prepare_export()`, then steps it with the actor's own actions and watches what
    changes. The steps are real ones and are not taken back; a few more than asked for may be made to get to the ground
    of a finding. Everything else that is tried out is taken back.

    Args:
        env: The environment, with its components registered.
        actor: The actor; checked in evaluation mode, whatever mode it is in.
        steps: How many policy steps to watch; 1 or more.
        allow_random: The export will be made with `allow_random=True`, so that the actor may draw random numbers.

    Returns:
        The findings. Whatever stops the capture or the steps is a finding as well, never an exception.

    Raises:
        EnvironmentError: If the number of steps is not positive.
    """
    if steps < 1:
        raise EnvironmentError(f"check_environment() needs steps of 1 or more, got {steps}.")
    with ONE_AT_A_TIME, no_garbage_collection():
        try:
            exportable = make_exportable_actor(actor)
            env.prepare_export()
            modules = [exportable, *env.context_manager().modules]
        except Exception as error:
            return Diagnosis((_failure(Kind.CAPTURE_FAILED, "env", error),), 0)
        with evaluation_mode(modules):
            try:
                program = capture(env, exportable)
            except Exception as error:
                return _without_program(env, exportable, steps, error)
            return diagnose(env, exportable, program, steps, allow_random=allow_random)


def diagnose(
    env: ExportableEnvironment,
    actor: ExportableActor,
    program: Program,
    steps: int = DEFAULT_STEPS,
    *,
    allow_random: bool = False,
) -> Diagnosis:
    """Check an environment that was just captured, by stepping it; see `check_environment()`.

    Args:
        env: The environment, as it was captured.
        actor: The actor, in evaluation mode.
        program: The result of the capture.
        steps: How many policy steps to watch.
        allow_random: Whether the actor may draw random numbers.
    """
    findings = [*_guarded(name_findings, env), *_guarded(_stated_decimation, env)]
    if any(finding.kind is not Kind.WRONG_NAMES for finding in findings):
        return Diagnosis(tuple(findings), 0)
    names = _names(env)
    case = Case(Experiments(env, actor), program, allow_random)
    session = ProgramSession(program, actor, checked_decimation(env), names)
    values = PythonValues(case.experiments.roots)
    difference: str | None = None
    try:
        with case.experiments.trial() as snapshot:
            case.own_changes = changes_of_pipeline(case.experiments, program, values)
            difference = standing_still_difference(case, session, snapshot)
        if difference is not None:
            findings += late_findings(case, values.values)
    except Exception as error:
        findings.append(_failure(Kind.CANNOT_STEP, "env", error))
    case.evidence = step_and_watch(case.experiments, program, session, values, steps)
    case.roles = roles(program, case.own_changes, case.evidence)
    findings += _guarded(lambda case: _from_steps(env, program, case.evidence, names), case)
    if case.evidence.error is None:
        findings += _guarded(_probe, case)
    with case.experiments.trial():
        for detector in (_rate_findings, frozen_findings, port_findings, random_findings, python_findings):
            findings += _guarded(detector, case)
    findings += _unexplained(case, findings, difference)
    return Diagnosis(tuple(findings), case.evidence.steps)


def _stated_decimation(env: ExportableEnvironment) -> list[Finding]:
    try:
        checked_decimation(env)
    except EnvironmentError as error:
        where = definition(getattr(type(env).decimation, "fget", None))
        what, _, _ = str(error).partition(". ")
        return [Finding.of(Kind.WRONG_DECIMATION, "env.decimation", what, where, "# let decimation be a whole number")]
    return []


def _names(env: ExportableEnvironment) -> tuple[str, ...]:
    try:
        return checked_observation_names(env)
    except Exception:
        return ()  # which is a finding of its own


def _probe(case: Case) -> list[Finding]:
    """Make some more real steps, to find out what they call and what they write."""
    if not case.evidence.sub_steps:
        case.calls_in_a_step = calls_in_a_step(case.experiments)
    case.probes = probe(case.experiments, case.suspects)
    return []


def _rate_findings(case: Case) -> list[Finding]:
    return decimation_findings(case.experiments, case.calls_in_a_step, case.evidence.sub_steps)


def _without_program(env: ExportableEnvironment, actor: ExportableActor, steps: int, reason: Exception) -> Diagnosis:
    """What can be said of an environment that cannot be captured."""
    experiments = Experiments(env, actor)
    findings = [_failure(Kind.CAPTURE_FAILED, "env", reason), *_guarded(name_findings, env)]
    evidence = step_and_watch(experiments, None, None, PythonValues(experiments.roots), steps)
    findings += _guarded(lambda evidence: _from_steps(env, None, evidence, ()), evidence)
    return Diagnosis(tuple(findings), evidence.steps)


def _from_steps(
    env: ExportableEnvironment, program: Program | None, evidence: Evidence, names: tuple[str, ...]
) -> list[Finding]:
    findings = finite_findings(evidence, program, names)
    if evidence.error is not None:
        return [*findings, _failure(Kind.CANNOT_STEP, "env.step()", evidence.error)]
    if evidence.resets >= evidence.steps and not evidence.has_hooks:
        what = "the environment was reset at every step, so that no change of state could be seen"
        advice = "# let episodes last for several steps while the environment is checked"
        findings.append(Finding.of(Kind.NOT_OBSERVED, "env.step()", what, definition(type(env).step), advice))
    return findings


def _guarded(detector: Callable[[Subject], list[Finding]], subject: Subject) -> list[Finding]:
    """What a detector finds; if code of the user's fails in it, that is the finding."""
    try:
        return detector(subject)
    except Exception as error:
        return [_failure(Kind.CANNOT_STEP, "env", error)]


def _unexplained(case: Case, findings: list[Finding], difference: str | None) -> list[Finding]:
    """Results in which program and environment differ although nothing was found that could be the reason."""
    if case.program.random_operators or any(item.severity is Severity.ERROR for item in findings):
        return []
    different = {
        name: item.first
        for name, item in case.evidence.tally.outputs.items()
        if item.first is not None and not _reads_a_changed_constant(case, name)
    }
    if not different and difference is None:
        return []
    name, *others = different or ["env"]
    what = "the captured program and the environment differ"
    what += f", first at {different[name]}" if different else f" while the simulator stands still: {difference}"
    what += f"; so do {', '.join(others)}" if others else ""
    changed = list(case.evidence.python_after)[:_MAX_LISTED]
    advice = "# look for state outside of the environment's attributes: globals, closures, other processes"
    if changed:
        advice = f"# look at Python values that changed, such as {', '.join(changed)}; else at globals and closures"
    return [Finding.of(Kind.UNEXPLAINED, name, what, suggestion=advice)]


def _reads_a_changed_constant(case: Case, output: str) -> bool:
    """Whether an output depends on a tensor that was declared as a constant and has changed."""
    declared = (item for item in (*case.program.frozen, *case.program.weights) if item.declared is not None)
    changed = {name for item in declared if item.name in case.evidence.changes for name in item.constants}
    read = {name for path in case.program.sources for name in (path[output].constants if output in path else ())}
    return bool(changed & read)


def _failure(kind: Kind, tensor: str, error: Exception) -> Finding:
    message = str(error) or type(error).__name__
    place = _PLACE.match(message)
    where = raising_line(error)
    if place is not None:
        where, message = place["where"], place["message"]
    where = "" if where == UNKNOWN else where
    if not isinstance(error, ExployError):
        name = type(error).__name__
        return Finding.of(kind, tensor, f"{name}: {message}", where, f"# mend the {name} raised at {where or 'a step'}")
    what, _, advice = message.partition(". ")
    return Finding.of(kind, tensor, what, where, f"# {' '.join(advice.split()) or what}")
