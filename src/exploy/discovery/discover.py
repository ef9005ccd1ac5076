"""Finds by itself what to register of an environment."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence

import torch

from exploy.capture.capture import ONE_AT_A_TIME
from exploy.capture.garbage_collection import paused_garbage_collection
from exploy.diagnosis.check import DEFAULT_STEPS, check_environment
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.moved_by_actions import moved_by_actions
from exploy.diagnosis.evidence.rare_changes import AFTER_A_RESET
from exploy.diagnosis.failure import failure
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.diagnosis.pasting import is_code, paste
from exploy.diagnosis.suggestion import component_line, name_from_attr_path
from exploy.discovery.after_resets import differences_after_a_reset
from exploy.discovery.discovery import Discovery, Found, Question
from exploy.discovery.search import Search, asked_and_decided, offered_components
from exploy.environment.actor import ExportableActor, make_exportable_actor
from exploy.environment.components import Memory, Output
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import DiscoveryError, IncompleteDiscoveryWarning, InvalidEnvironmentError, SubstituteError
from exploy.live.attribute_paths import BOOKKEEPING
from exploy.live.evaluation_mode import evaluation_mode
from exploy.live.object_graph import is_a, walk
from exploy.live.roots import live_objects
from exploy.live.snapshot import Snapshot
from exploy.verify.start_values import RESET_WITHIN
from exploy.verify.trusted_substitutes import trusted_substitutes

_MOST_CHECKS = 3
_ANSWERS = ("input", "constant")
_COMPONENTS = ("Input(", "Memory(", "Connection(", "add_actor_memory(")
_MENDED_BY_A_COMPONENT = (FindingKind.UNREGISTERED_INPUT, FindingKind.MISSING_MEMORY, FindingKind.STALE_CACHE)


def discover(
    env: ExportableEnvironment,
    actor: torch.nn.Module,
    *,
    outputs: Mapping[str, str] | None = None,
    decisions: Mapping[str, str] | None = None,
    steps: int = DEFAULT_STEPS,
    reset_within: int = RESET_WITHIN,
    register: bool = False,
) -> Discovery:
    """Find out what to register, by moving the environment and looking at what changes.

    The pipeline is captured with what is registered already, usually nothing. The environment is moved through steps
    and resets. Tensors that steps change and that results depend on are Inputs, narrowed to the elements that matter;
    those that the pipeline writes are Memories. What only resets change may be a constant of an episode, such as a
    gain, or a command: that is asked. Everything is then checked as `exploy.check_environment()` does; what it finds
    are problems.

    The steps are real and are not undone. All other changes are undone, registrations included, unless `register`.

    Args:
        env: The environment.
        actor: The actor; always used in evaluation mode.
        outputs: The tensors that the robot gets, as Python expressions in `env` by the name of the Output, such as
            `{"torque": "env.torque"}`; `{}` if it gets the actions alone. If None, those that the actions move are
            proposed.
        decisions: Answers to questions of an earlier discovery, "input" or "constant" by path.
        steps: Number of policy steps to watch before the first reset.
        reset_within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
        register: Register what was found. If something is left open, an `IncompleteDiscoveryWarning` says so.

    Returns:
        What was found. It prints as a table, with the code that registers the same.

    Raises:
        DiscoveryError: If an Output or a decision is not valid.
        DuplicateNameError, ReservedNameError, ComponentError: If an Output cannot have its name.
        InvalidEnvironmentError: If the number of steps is not positive.
    """
    if steps < 1:
        raise InvalidEnvironmentError(f"discover() needs steps of 1 or more, got {steps}.")
    decisions = _validated(decisions or {})
    exportable = make_exportable_actor(actor)
    with ONE_AT_A_TIME, paused_garbage_collection():
        manager = env.context_manager()
        try:
            env.prepare_export()
            live_objects(env, exportable, anew=True)
            modules = [exportable, *manager.modules]
        except Exception as error:
            return _only(failure(FindingKind.CAPTURE_FAILED, "env", error))
        with Snapshot({"actor": exportable}), evaluation_mode(modules), manager.registrations_undone():
            try:
                result = _discover(env, actor, exportable, outputs, decisions, steps, reset_within)
            except SubstituteError as error:
                return _only(failure(FindingKind.WRONG_SUBSTITUTE, "env", error))
    if register:
        result.register(env, actor)
        if not result.ok:
            warnings.warn(_left_open(result), IncompleteDiscoveryWarning, stacklevel=2)
    return result


def _only(problem: Finding) -> Discovery:
    return Discovery((), (), (problem,), (), 0, 0)


def _discover(
    env: ExportableEnvironment,
    actor: torch.nn.Module,
    exportable: ExportableActor,
    outputs: Mapping[str, str] | None,
    decisions: Mapping[str, str],
    steps: int,
    within: int,
) -> Discovery:
    search = Search(env, exportable, decisions, steps, within)
    named = [_output(env, name, path) for name, path in (outputs or {}).items()]
    for item in named:
        paste(item.code, env, actor)
    at_start, offered = _tensors(env), offered_components(env)
    for number in range(_MOST_CHECKS):
        with trusted_substitutes(env, exportable, with_reset=True):
            if number == 0:
                search.adopt(offered)
            search.run()
        if search.problems:
            break
        diagnosis = check_environment(env, actor, steps, reset_within=within, lower=False)
        severe = [item for item in diagnosis.findings if item.severity is not Severity.INFO]
        severe = [item for item in severe if not _is_in_a_question(item, search)]
        further = {found.code: found for item in severe if (found := _component(item, search)) is not None}
        is_last = number == _MOST_CHECKS - 1
        with trusted_substitutes(env, exportable, with_reset=True):
            if is_last or not search.adopt([*further.values()]):
                search.problems += [_by_path(item, search.found) for item in severe]
                search.problems += differences_after_a_reset(search, within)
                break
    questions = [*search.questions.values()]
    if outputs is None and not _has_output(env):
        questions += _about_outputs(env, exportable, at_start)
    unknown = [path for path in decisions if path not in asked_and_decided(search)]
    if unknown and not search.problems:
        raise DiscoveryError(
            f"There is no question about {', '.join(unknown)}. Open: {', '.join(search.questions) or 'none'}."
        )
    movement = search.movement
    return Discovery(
        (*search.found, *named),
        tuple(questions),
        tuple(dict.fromkeys(search.problems)),
        tuple(search.constants),
        movement.steps,
        movement.resets,
    )


def _validated(decisions: Mapping[str, str]) -> Mapping[str, str]:
    for path, answer in decisions.items():
        if answer not in _ANSWERS:
            raise DiscoveryError(f"The decision about {path} must be one of {', '.join(_ANSWERS)}, got {answer!r}.")
    return decisions


def _output(env: ExportableEnvironment, name: str, path: str) -> Found:
    """An Output that the user has named.

    Raises:
        DiscoveryError: If its expression does not give a tensor before the first step.
        DuplicateNameError: If a component of this name is registered already.
        ReservedNameError, ComponentError: If a component cannot have this name.
    """
    try:
        value = eval(path, {"env": env, "torch": torch})
    except Exception as error:
        raise DiscoveryError(
            f"Output {name!r}: {path!r} raises {type(error).__name__}: {error}. It must exist before the first step."
        ) from error
    if not isinstance(value, torch.Tensor):
        raise DiscoveryError(f"Output {name!r}: {path!r} must be a torch.Tensor, got {type(value).__name__}.")
    manager = env.context_manager()
    with manager.registrations_undone():
        manager.add_component(Output(name, lambda: value))
    return Found("output", name, path, component_line("Output", name, path))


def _is_in_a_question(finding: Finding, search: Search) -> bool:
    """Whether a finding is about what an open question is about. If it says more, the question says it from then on."""
    asked = [item for item in search.questions.values() if _is_part(finding.tensor, search.tensor_of(item.path))]
    if finding.kind not in (FindingKind.UNREGISTERED_INPUT, FindingKind.STALE_CACHE):
        return False
    if finding.kind is FindingKind.UNREGISTERED_INPUT and AFTER_A_RESET not in finding.what:
        for question in [item for item in asked if "constant" in item.options]:
            what = f"{question.what}; the check at the end has seen more: {finding.what}"
            search.questions[question.path] = dataclasses.replace(question, what=what, proposal="input")
    return bool(asked)


def _component(finding: Finding, search: Search) -> Found | None:
    """The component that mends a finding of the check, if its suggestion was tried and is nothing but components.

    What a question is about is left to the user.
    """
    if any(_is_part(finding.tensor, search.tensor_of(path)) for path in asked_and_decided(search)):
        return None
    lines = finding.suggestion.splitlines()
    if finding.kind not in _MENDED_BY_A_COMPONENT or not is_code(finding.suggestion):
        return None
    if AFTER_A_RESET in finding.what or not lines[-1].startswith(_COMPONENTS):
        return None
    kind, _, rest = lines[-1].partition('(name="')
    if not rest:
        return Found(
            "memory", finding.tensor, finding.tensor, finding.suggestion, "the state of the actor", finding.where
        )
    name = rest.partition('"')[0]
    return Found(kind.lower(), name, finding.tensor, finding.suggestion, "found by the check", finding.where)


def _by_path(finding: Finding, found: Sequence[Found]) -> Finding:
    """A finding about the port of a component, told by the path of its tensor, for the component has no line yet."""
    paths = {name: item.path for item in found for name in (item.name, f"memory.{item.name}.in")}
    return dataclasses.replace(finding, tensor=paths.get(finding.tensor, finding.tensor))


def _tensors(env: ExportableEnvironment) -> set[str]:
    return {item.attr_path for item in walk({"env": env}, skip=BOOKKEEPING) if is_a(item.value, torch.Tensor)}


def _about_outputs(env: ExportableEnvironment, actor: ExportableActor, possible: set[str]) -> list[Question]:
    """A question about what the robot gets: those of some tensors that the actions move."""
    manager = env.context_manager()
    try:
        moved = [path for path in moved_by_actions(Experiments(env, actor)) if path in possible]
    except Exception:
        return []
    options: dict[str, str] = {}
    taken = {item.name for item in manager.get_input_components()}
    for path in moved:
        name = name_from_attr_path(path, {*taken, *options}, "Output")
        options[name] = component_line("Output", name, path)
    if not options:
        return []
    what = "no Output is named; the actions move these tensors: pass those that the robot gets, outputs={NAME: PATH}"
    return [Question("outputs", what, "", options, next(iter(options)))]


def _has_output(env: ExportableEnvironment) -> bool:
    return any(not isinstance(item, Memory) for item in env.context_manager().get_output_components())


def _is_part(tensor: str, path: str) -> bool:
    return tensor == path or tensor.startswith((f"{path}.", f"{path}["))


def _left_open(result: Discovery) -> str:
    questions = [item.path for item in result.questions]
    problems = [f"{item.kind}: {item.tensor}" for item in result.problems]
    return f"The registration is not complete. To decide or to mend: {', '.join([*questions, *problems])}."
