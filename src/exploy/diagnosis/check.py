"""Checks an environment before it is exported."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Sequence

import torch

from exploy.capture.capture import ONE_AT_A_TIME, capture
from exploy.capture.garbage_collection import paused_garbage_collection
from exploy.capture.program import Program
from exploy.contract import Contract
from exploy.description.metadata import build_metadata
from exploy.diagnosis import detectors
from exploy.diagnosis.detectors.first_step_state import first_step_findings, standing_still_difference
from exploy.diagnosis.detectors.later_steps import later_findings
from exploy.diagnosis.detectors.unexplained import unexplained_findings
from exploy.diagnosis.detectors.values import name_findings
from exploy.diagnosis.detectors.written_by_step import written_by_step_findings
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.pipeline_alone import changes_of_pipeline
from exploy.diagnosis.evidence.probing import probe
from exploy.diagnosis.evidence.rare_changes import watch_long_run, watch_resets
from exploy.diagnosis.evidence.roles import roles
from exploy.diagnosis.evidence.stepped_program import SteppedProgram
from exploy.diagnosis.evidence.stepping import step_and_watch
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.failure import failure, guarded
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.diagnosis.lowering import lowering_findings
from exploy.diagnosis.reset_starts import AS_FOUND, InitialMemory, MemoryStarts, with_starts_of_reset
from exploy.diagnosis.tried_suggestions import with_tried_suggestions
from exploy.environment.actor import ExportableActor, make_exportable_actor
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.observations import validated_observation_names
from exploy.environment.validation import validated_decimation
from exploy.errors import InvalidEnvironmentError, SubstituteError
from exploy.live.evaluation_mode import evaluation_mode
from exploy.live.location import definition
from exploy.live.out_of_reach import OutOfReach, too_many_objects
from exploy.live.python_values import PythonValues
from exploy.live.roots import live_objects
from exploy.verify.start_values import RESET_WITHIN
from exploy.verify.trusted_substitutes import TrustedSubstitutes, trusted_substitutes

DEFAULT_STEPS = 20

Detector = Callable[[Examination], list[Finding]]  # signature of all detectors in detectors/


def check_environment(
    env: ExportableEnvironment,
    actor: torch.nn.Module,
    steps: int = DEFAULT_STEPS,
    *,
    allow_random: bool = False,
    initial_memory: InitialMemory = None,
    reset_within: int = RESET_WITHIN,
    lower: bool = True,
) -> Diagnosis:
    """Find errors before an export, such as state that would be frozen, missing or random in the file.

    Captures the environment after `prepare_export()`, steps it with the actions of the actor, and watches what
    changes. The steps are real and are not undone. A few extra steps may be made to find the cause of a finding. All
    other changes that the check makes are undone.

    Args:
        env: The environment, with its components registered.
        actor: The actor; always checked in evaluation mode.
        steps: Number of policy steps to watch; 1 or more.
        allow_random: Allow the actor to draw random numbers. Use it if you export with `allow_random=True`.
        initial_memory: The start values of memories that the export will be given; see `exploy.export()`.
        reset_within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`. As
            many are made in all to look for rare changes, or fewer if they take more than 20 ms each.
        lower: Also convert the captured environment to ONNX, as an export does, to see that this works.

    Returns:
        The findings. Errors in the capture or in the steps are findings too; they are not raised.

    Raises:
        InvalidEnvironmentError: If the number of steps is not positive.
        ComponentError: If `initial_memory` or `reset_within` is not valid.
    """
    if steps < 1:
        raise InvalidEnvironmentError(f"check_environment() needs steps of 1 or more, got {steps}.")
    starts = MemoryStarts.of(initial_memory, reset_within, others_from_reset=True)
    starts = dataclasses.replace(starts, is_stated=initial_memory is not None)
    with ONE_AT_A_TIME, paused_garbage_collection():
        try:
            exportable = make_exportable_actor(actor)
            env.prepare_export()
            modules = [exportable, *env.context_manager().modules]
        except Exception as error:
            return Diagnosis((failure(FindingKind.CAPTURE_FAILED, "env", error),), 0)
        state = OutOfReach(live_objects(env, exportable, anew=True))
        with evaluation_mode(modules):
            try:
                with trusted_substitutes(env, exportable, with_reset=True) as substitutes:
                    found = _check(env, exportable, steps, allow_random, starts, lower)
            except SubstituteError as error:
                return Diagnosis((failure(FindingKind.WRONG_SUBSTITUTE, "env", error),), 0)
            return found.with_findings([*_unused_substitutes(substitutes), *_not_restored(state)])


def _check(
    env: ExportableEnvironment,
    actor: ExportableActor,
    steps: int,
    allow_random: bool,
    starts: MemoryStarts,
    lower: bool,
) -> Diagnosis:
    try:
        program = capture(env, actor, starts.given)
        program, _ = with_starts_of_reset(program, env, actor, starts)
    except Exception as error:
        return _without_program(env, actor, steps, error)
    found = diagnose(env, actor, program, steps, allow_random=allow_random, starts=starts)
    return with_lowering(found, env, actor, program) if lower else found


def diagnose(
    env: ExportableEnvironment,
    actor: ExportableActor,
    program: Program,
    steps: int = DEFAULT_STEPS,
    *,
    allow_random: bool = False,
    starts: MemoryStarts = AS_FOUND,
) -> Diagnosis:
    """Step and check an environment that was just captured; see `check_environment()`.

    Args:
        env: The environment, as it was captured.
        actor: The actor, in evaluation mode.
        program: The result of the capture.
        steps: Number of policy steps to watch.
        allow_random: Whether the actor may draw random numbers.
        starts: Where the start values of memories come from.
    """
    examination = _examination(env, actor, program, allow_random, starts)
    examination.findings += _found_by(_BEFORE, examination)
    if any(finding.kind is not FindingKind.WRONG_NAMES for finding in examination.findings):
        return Diagnosis(tuple(examination.findings), 0)  # none of them has code that is tried
    stepped = SteppedProgram(program, validated_decimation(env), examination.observation_names)
    examination.findings += metadata_findings(env, stepped.contract)
    values = PythonValues(examination.experiments.roots)
    examination.python_before = values.values
    examination.findings += guarded(lambda item: _stand_still(item, stepped, values), examination)
    examination.evidence = step_and_watch(examination.experiments, program, stepped, values, steps)
    if examination.evidence.error is None:
        examination.findings += guarded(lambda item: _look_for_rare_changes(item, values), examination)
    examination.roles = roles(examination.experiments, program, examination.own_changes, examination.evidence)
    examination.findings += _found_by(_OF_STEPS, examination)
    if examination.evidence.error is None:
        examination.findings += guarded(_probe, examination)
    with examination.experiments.trial():
        examination.findings += _found_by(_ON_TRIAL, examination)
    examination.findings += later_findings(examination)
    examination.findings += guarded(written_by_step_findings, examination)
    examination.findings += unexplained_findings(examination)
    findings = tuple(with_tried_suggestions(examination))
    return Diagnosis(findings, examination.evidence.steps, tuple(examination.not_compared))


def _unused_substitutes(substitutes: TrustedSubstitutes) -> list[Finding]:
    what = "the pipeline does not call it, so that its substitute is not used"
    return [Finding.of(FindingKind.UNUSED, name, what) for name in substitutes.unused]


def _not_restored(state: OutOfReach) -> list[Finding]:
    if not state.has_too_many_objects:
        return []
    return [Finding.of(FindingKind.NOT_RESTORED, "env", too_many_objects())]


def with_lowering(
    diagnosis: Diagnosis, env: ExportableEnvironment, actor: ExportableActor, program: Program
) -> Diagnosis:
    """Add what lowering the program finds."""
    examination = _examination(env, actor, program)
    examination.findings += diagnosis.findings
    return diagnosis.with_findings(guarded(lowering_findings, examination))


def _examination(
    env: ExportableEnvironment,
    actor: ExportableActor,
    program: Program | None,
    allow_random: bool = False,
    starts: MemoryStarts = AS_FOUND,
) -> Examination:
    names = _observation_names(env)
    return Examination(Experiments(env, actor), program, allow_random, starts, observation_names=names)


def _found_by(group: Sequence[Detector], examination: Examination) -> list[Finding]:
    return [finding for detector in group for finding in guarded(detector, examination)]


def metadata_findings(env: ExportableEnvironment, contract: Contract) -> list[Finding]:
    """Check that the metadata of the environment can be stored."""
    try:
        build_metadata(env, contract, None)
    except Exception as error:
        return [failure(FindingKind.CAPTURE_FAILED, "env.metadata()", error)]
    return []


def _stand_still(examination: Examination, stepped: SteppedProgram, values: PythonValues) -> list[Finding]:
    """Run the pipeline without stepping the simulator, and note what it changes."""
    experiments, program = examination.experiments, examination.program
    with experiments.trial() as snapshot:
        examination.own_changes = changes_of_pipeline(experiments, program, values)
        examination.difference = standing_still_difference(examination, stepped, snapshot)
    return [] if examination.difference is None else first_step_findings(examination)


def _look_for_rare_changes(examination: Examination, values: PythonValues) -> list[Finding]:
    """Make resets happen and run the pipeline for long, both undone."""
    experiments, program, evidence = examination.experiments, examination.program, examination.evidence
    within = examination.starts.reset_within
    examination.resets = watch_resets(experiments, program, evidence, values, within)
    examination.long_run = watch_long_run(experiments, program, evidence, examination.own_changes, examination.resets)
    return []


def _probe(examination: Examination) -> list[Finding]:
    """Make some more real steps, to see which functions they call and which tensors they write."""
    examination.probes = probe(examination.experiments, examination.suspects)
    return []


def _without_program(env: ExportableEnvironment, actor: ExportableActor, steps: int, reason: Exception) -> Diagnosis:
    """Check an environment that cannot be captured."""
    examination = _examination(env, actor, None)
    experiments = examination.experiments
    examination.findings += [failure(FindingKind.CAPTURE_FAILED, "env", reason), *guarded(name_findings, examination)]
    examination.evidence = step_and_watch(experiments, None, None, PythonValues(experiments.roots), steps)
    examination.findings += _found_by(_OF_STEPS, examination)
    return Diagnosis(tuple(examination.findings), examination.evidence.steps)


def step_findings(examination: Examination) -> list[Finding]:
    """Check that the environment can be stepped, and is not reset at every step."""
    env, evidence = examination.env, examination.evidence
    if evidence.error is not None:
        return [failure(FindingKind.CANNOT_STEP, "env.step()", evidence.error)]
    if evidence.resets < evidence.steps or evidence.sees_sub_steps:
        return []
    what = "the environment was reset at every step, so no change of state could be observed"
    advice = "# make episodes last several steps while the environment is checked"
    return [Finding.of(FindingKind.NOT_OBSERVED, "env.step()", what, definition(type(env).step), advice)]


def _observation_names(env: ExportableEnvironment) -> dict[str, tuple[str, ...]]:
    try:
        return validated_observation_names(env)
    except Exception:
        return {}  # name_findings() reports the error


def _listed(name: str) -> tuple[Detector, ...]:
    """The detectors that the modules in detectors/ list under a name, in the order of the modules."""
    stems = sorted(item.name for item in pkgutil.iter_modules(detectors.__path__))
    modules = [importlib.import_module(f"{detectors.__name__}.{stem}") for stem in stems]
    return tuple(detector for module in modules for detector in getattr(module, name, ()))


_BEFORE = _listed("BEFORE")
_OF_STEPS = (*_listed("OF_STEPS"), step_findings)
_ON_TRIAL = _listed("ON_TRIAL")
