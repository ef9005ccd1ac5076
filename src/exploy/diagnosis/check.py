"""Checks an environment before it is exported."""

import torch

from exploy.capture.capture import ONE_AT_A_TIME, capture
from exploy.capture.garbage import no_garbage_collection
from exploy.capture.program import Program
from exploy.description.metadata import build_metadata
from exploy.diagnosis.case import Case
from exploy.diagnosis.detectors.frozen_state import frozen_findings
from exploy.diagnosis.detectors.late_state import late_findings, standing_still_difference
from exploy.diagnosis.detectors.ports import port_findings
from exploy.diagnosis.detectors.python_state import python_findings
from exploy.diagnosis.detectors.randomness import random_findings
from exploy.diagnosis.detectors.rates import calls_in_a_step, decimation_findings, stated_decimation_findings
from exploy.diagnosis.detectors.unexplained import unexplained_findings
from exploy.diagnosis.detectors.values import finite_findings, name_findings
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.pipeline_alone import changes_of_pipeline
from exploy.diagnosis.evidence.probing import probe
from exploy.diagnosis.evidence.roles import roles
from exploy.diagnosis.evidence.stepped_program import SteppedProgram
from exploy.diagnosis.evidence.stepping import Evidence, step_and_watch
from exploy.diagnosis.failure import failure, guarded
from exploy.diagnosis.finding import Finding, Kind
from exploy.environment.actor import ExportableActor, make_exportable_actor
from exploy.environment.checks import checked_decimation, checked_observation_names
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import EnvironmentError
from exploy.live.evaluation_mode import evaluation_mode
from exploy.live.location import definition
from exploy.live.python_values import PythonValues

DEFAULT_STEPS = 20


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
            return Diagnosis((failure(Kind.CAPTURE_FAILED, "env", error),), 0)
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
    stated = [*guarded(name_findings, env), *guarded(stated_decimation_findings, env)]
    if any(finding.kind is not Kind.WRONG_NAMES for finding in stated):
        return Diagnosis(tuple(stated), 0)
    check = _Check(env, Case(Experiments(env, actor), program, allow_random))
    stated += check.metadata_findings()
    return Diagnosis((*stated, *check.findings(steps)), check.case.evidence.steps)


class _Check:
    """The parts of a check, in their order: the simulator stands still, then it moves, then things are tried out."""

    def __init__(self, env: ExportableEnvironment, case: Case):
        self.case = case
        self._env = env
        self._names = _observation_names(env)
        self._stepped = SteppedProgram(case.program, checked_decimation(env), self._names)
        self._values = PythonValues(case.experiments.roots)
        self._difference: str | None = None

    def metadata_findings(self) -> list[Finding]:
        """Whether what the environment says of itself can be stored."""
        try:
            build_metadata(self._env, self._stepped.contract, None)
        except Exception as error:
            return [failure(Kind.CAPTURE_FAILED, "env.metadata()", error)]
        return []

    def findings(self, steps: int) -> list[Finding]:
        """Everything that is found, over some policy steps."""
        findings = guarded(_Check._stand_still, self)
        case, program = self.case, self.case.program
        case.evidence = step_and_watch(case.experiments, program, self._stepped, self._values, steps)
        case.roles = roles(program, case.own_changes, case.evidence)
        findings += _findings_of_steps(self._env, program, case.evidence, self._names)
        if case.evidence.error is None:
            findings += guarded(_Check._probe, self)
        with case.experiments.trial():
            for detector in (_rate_findings, frozen_findings, port_findings, random_findings, python_findings):
                findings += guarded(detector, case)
        return findings + unexplained_findings(case, findings, self._difference)

    def _stand_still(self) -> list[Finding]:
        case = self.case
        with case.experiments.trial() as snapshot:
            case.own_changes = changes_of_pipeline(case.experiments, case.program, self._values)
            self._difference = standing_still_difference(case, self._stepped, snapshot)
        return [] if self._difference is None else late_findings(case, self._values.values)

    def _probe(self) -> list[Finding]:
        """Make some more real steps, to see what they call and write."""
        case = self.case
        if not case.evidence.sub_steps:
            case.calls_in_a_step = calls_in_a_step(case.experiments)
        case.probes = probe(case.experiments, case.suspects)
        return []


def _rate_findings(case: Case) -> list[Finding]:
    return decimation_findings(case.experiments, case.calls_in_a_step, case.evidence.sub_steps)


def _without_program(env: ExportableEnvironment, actor: ExportableActor, steps: int, reason: Exception) -> Diagnosis:
    """What can be said of an environment that cannot be captured."""
    experiments = Experiments(env, actor)
    findings = [failure(Kind.CAPTURE_FAILED, "env", reason), *guarded(name_findings, env)]
    evidence = step_and_watch(experiments, None, None, PythonValues(experiments.roots), steps)
    findings += _findings_of_steps(env, None, evidence, ())
    return Diagnosis(tuple(findings), evidence.steps)


def _findings_of_steps(
    env: ExportableEnvironment, program: Program | None, evidence: Evidence, names: tuple[str, ...]
) -> list[Finding]:
    findings = guarded(lambda evidence: finite_findings(evidence, program, names), evidence)
    if evidence.error is not None:
        return [*findings, failure(Kind.CANNOT_STEP, "env.step()", evidence.error)]
    if evidence.resets >= evidence.steps and not evidence.has_hooks:
        what = "the environment was reset at every step, so that no change of state could be seen"
        advice = "# let episodes last for several steps while the environment is checked"
        findings.append(Finding.of(Kind.NOT_OBSERVED, "env.step()", what, definition(type(env).step), advice))
    return findings


def _observation_names(env: ExportableEnvironment) -> tuple[str, ...]:
    try:
        return checked_observation_names(env)
    except Exception:
        return ()  # which is a finding of its own
