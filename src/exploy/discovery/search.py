"""Searches for what to register, in rounds: each registers what the last one has found, and captures again."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from exploy.capture.capture import capture
from exploy.capture.influence import Influence
from exploy.capture.program import FrozenTensor, Program
from exploy.diagnosis.detectors.cached_observations import cached_observation_finding, is_cached_observation
from exploy.diagnosis.detectors.stale_cache import find_refreshes, suggest_refresh
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.outside_torch import written_outside_torch
from exploy.diagnosis.evidence.pipeline_alone import OwnChanges, changes_of_pipeline
from exploy.diagnosis.evidence.probing import probe
from exploy.diagnosis.evidence.roles import Role
from exploy.diagnosis.evidence.rotation import rotating_groups
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.failure import failure
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.diagnosis.pasting import paste
from exploy.diagnosis.suggestion import component_line, name_from_attr_path
from exploy.discovery.discovery import Found, Question
from exploy.discovery.movement import Movement, watch_movement
from exploy.discovery.own_motion import continues_itself
from exploy.discovery.proposals import likely_answers
from exploy.discovery.regions import Region, regions
from exploy.environment.actor import ExportableActor, unwrapped
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.offered_ports import OffersPorts
from exploy.errors import DiscoveryError
from exploy.live.location import UNKNOWN
from exploy.live.python_values import PythonValues
from exploy.verify.frozen_watch import as_array

_MOST_ROUNDS = 5
_IMAGE = 4  # dimensions


class Search:
    """What to register, as far as it was found.

    Args:
        env: The environment. Components are registered on it meanwhile; the caller takes them back.
        actor: The actor, in evaluation mode.
        decisions: Answers to questions, by path.
        steps: Number of policy steps to watch before the first reset.
        within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
    """

    def __init__(
        self,
        env: ExportableEnvironment,
        actor: ExportableActor,
        decisions: Mapping[str, str],
        steps: int,
        within: int,
    ):
        self.found: list[Found] = []
        self.questions: dict[str, Question] = {}
        self.problems: list[Finding] = []
        self.constants: list[str] = []
        self.program: Program | None = None
        self._tensors: dict[str, str] = {}  # of questions and Inputs, by their paths
        self._covered: dict[str, np.ndarray] = {}  # elements that Inputs have, by tensor
        self.movement = Movement()
        self._env, self._actor = env, actor
        self.experiments = Experiments(env, actor)
        self._decisions = decisions
        self._length = steps, within
        self._seen: set[str] = set()
        self._settled: set[str] = set()

    def tensor_of(self, path: str) -> str:
        """The tensor that the path of a question or a component is a part of."""
        return self._tensors.get(path, path)

    def run(self) -> None:
        """Search until a round finds nothing new."""
        for _ in range(_MOST_ROUNDS):
            try:
                program = capture(self._env, self._actor)
            except Exception as error:
                self.problems.append(failure(FindingKind.CAPTURE_FAILED, "env", error))
                return
            self.program = program
            if not self.adopt(self._round(program)):
                return

    def adopt(self, found: Sequence[Found]) -> bool:
        """Register components, and return whether there was one.

        If the environment cannot be captured with all of them, they are halved until those that it cannot be captured
        with are found. These are problems, and not registered.
        """
        if not found:
            return False
        error = self._error_with(found)
        if error is None:
            for item in found:
                paste(item.code, self._env, unwrapped(self._actor))
            self.found += found
        elif len(found) == 1:
            self.problems.append(failure(FindingKind.CAPTURE_FAILED, found[0].path, error))
            self._settled.add(self.tensor_of(found[0].path))
        else:
            half = len(found) // 2
            self.adopt(found[:half])
            self.adopt(found[half:])
        return True

    def _error_with(self, found: Sequence[Found]) -> Exception | None:
        try:
            with self.experiments.trial(), self._env.context_manager().registrations_undone():
                for item in found:
                    paste(item.code, self._env, unwrapped(self._actor))
                capture(self._env, self._actor)
        except Exception as error:
            return error
        return None

    # -- one round ---------------------------------------------------------------------------------------------------

    def _round(self, program: Program) -> list[Found]:
        stored = [item for item in program.frozen if item.declared is None and item.name not in self._settled]
        self._watch(stored)
        changes = changes_of_pipeline(self.experiments, program, PythonValues({}))
        influence = Influence(program, stored, [item for item in stored if self._is_fixed_index(item, changes)])
        elements = {item.name: influence.elements(item) for item in stored}
        relevant = [item for item in stored if elements[item.name].any() and item.live is None]
        examination = self._examination(program)
        memories = [item for item in relevant if self._is_memory(item, changes, elements[item.name])]
        others = [item for item in relevant if item not in memories]
        moving = [item for item in others if self._moves(item, elements[item.name])]
        examination.roles = dict.fromkeys((item.name for item in moving), Role.INPUT_OR_CACHE)
        found = [*self._refreshes(examination, moving)]
        if found:
            return found  # the pipeline computes more with them
        asked: dict[str, Question] = {}
        self.questions.clear()  # what is registered meanwhile may have answered them
        for item in moving:
            if self._is_copied_observation(examination, item):
                asked[item.name] = self._about_observation(examination, item)
            elif self.movement.keeps_actions(item.name):
                asked[item.name] = self._about_kept_actions(examination, item)
            else:
                found += self._inputs(examination, item, elements[item.name])
        found += self._memories(examination, memories, changes)
        still = [item for item in others if item not in moving]
        for item in still:
            asked |= {question.path: question for question in self._about(program, examination, item, elements)}
        found += self._decided(asked)
        asked_tensors = {self.tensor_of(path) for path in asked_and_decided(self)}
        unmoved = [item for item in stored if item not in memories and not self.movement.moved(item.name)]
        self.constants = [item.name for item in unmoved if item.live is None and item.name not in asked_tensors]
        return found

    def _watch(self, stored: list[FrozenTensor]) -> None:
        """Move the environment, and add what is seen of tensors that were not watched before."""
        new = [item for item in stored if item.name not in self._seen]
        self._seen |= {item.name for item in new}
        if not new:
            return
        seen, known = watch_movement(self.experiments, new, *self._length), self.movement
        self.movement = dataclasses.replace(
            seen,
            by_steps=known.by_steps | seen.by_steps,
            by_resets=known.by_resets | seen.by_resets,
            rewritten=known.rewritten | seen.rewritten,
            unlike_actions=known.unlike_actions | seen.unlike_actions,
            history=known.history | seen.history,
        )
        if seen.error is not None:
            self.problems.append(failure(FindingKind.CANNOT_STEP, "env.step()", seen.error))

    def _is_fixed_index(self, frozen: FrozenTensor, changes: OwnChanges) -> bool:
        """Whether a tensor has integers that neither steps, resets nor the pipeline write."""
        if frozen.value.dtype.kind not in "iu" or frozen.is_written or frozen.name in changes.tensors:
            return False
        if frozen.live is not None:  # no path leads to it, so it was not watched
            now = as_array(frozen.live)
            return now is not None and frozen.changed_elements(now) is None
        return not self.movement.moved(frozen.name) and frozen.name not in self.movement.rewritten

    def _is_memory(self, frozen: FrozenTensor, changes: OwnChanges, elements: np.ndarray) -> bool:
        """Whether the pipeline writes elements that it reads before."""
        changed = changes.tensors.get(frozen.name)
        if changed is None or not changed.any() or changed.shape != elements.shape:
            return frozen.is_written or changed is not None
        return bool((changed & elements).any()) or self._moves(frozen, elements)

    def _moves(self, frozen: FrozenTensor, elements: np.ndarray) -> bool:
        """Whether steps change elements that have influence."""
        return _overlap(self.movement.by_steps.get(frozen.name), elements)

    def _examination(self, program: Program) -> Examination:
        return Examination(self.experiments, program)

    # -- components --------------------------------------------------------------------------------------------------

    def _refreshes(self, examination: Examination, moving: list[FrozenTensor]) -> Iterator[Found]:
        """Connections that make the environment compute caches again."""
        with self.experiments.trial():
            examination.probes = probe(self.experiments, moving)
        self.experiments.observations = None
        for name, refresh in find_refreshes(self.experiments, examination.probes).items():
            line = suggest_refresh(examination, refresh, name)
            if any(item.code == line for item in self.found):
                continue  # it does not help
            label = line.partition('name="')[2].partition('"')[0]
            note = f"{name} is a cache, computed again {refresh.condition}"
            yield Found("connection", label, refresh.attr_path, line, note)

    def _memories(self, examination: Examination, memories: list[FrozenTensor], changes: OwnChanges) -> Iterator[Found]:
        outside = written_outside_torch(self.experiments, memories)  # a check says what to do about them
        left = {item.name: item for item in memories if item.name not in outside}
        known: set[str] = set()
        for group in rotating_groups(left, changes.rotations):
            if group.shared:
                continue
            for path in group.attr_paths:
                self._settled.add(path)
                frozen = left.get(path)
                code = (
                    examination.suggest("Memory", path)
                    if frozen is None
                    else examination.suggest_memory(frozen, self.experiments)
                )
                if code in known:
                    continue  # one line registers the whole state of an actor
                known.add(code)
                yield Found("memory", _name_in(code) or "actor_state", path, code, "", _where(frozen))

    def _is_copied_observation(self, examination: Examination, frozen: FrozenTensor) -> bool:
        """Whether observations are this tensor alone, and step() makes it of something else. Images usually are."""
        moved = self.movement.by_steps[frozen.name]
        is_image = len(frozen.shape) >= _IMAGE and len(examination.program.observation_outputs) > 1
        return (
            is_cached_observation(examination, frozen)
            and not is_image
            and not continues_itself(self.experiments, frozen, moved)
        )

    def _inputs(self, examination: Examination, frozen: FrozenTensor, elements: np.ndarray) -> Iterator[Found]:
        moved = self.movement.by_steps[frozen.name]
        if frozen.name in self._covered:  # a choice that is open now has made more elements matter
            elements = elements | self._covered[frozen.name]
            self._withdraw(frozen.name)
        self._covered[frozen.name] = elements
        parts = regions(frozen.shape, elements)
        for region in parts:
            code, name = self._component("Input", examination, frozen.name, region, len(parts) > 1)
            notes = [*self._twins(frozen.name), *_still(region, frozen.shape, elements, moved)]
            self._tensors[f"{frozen.name}{region.code}"] = frozen.name
            yield Found("input", name, f"{frozen.name}{region.code}", code, "; ".join(notes), _where(frozen))

    def _withdraw(self, tensor: str) -> None:
        """Take back the Inputs that parts of a tensor have."""
        taken = [item for item in self.found if item.kind == "input" and self.tensor_of(item.path) == tensor]
        for item in taken:
            self._env.context_manager().remove_component(item.name)
            self.found.remove(item)

    def _component(
        self, kind: str, examination: Examination, path: str, region: Region, is_part: bool
    ) -> tuple[str, str]:
        """The code of a component for a region of a tensor, and its name."""
        manager = self._env.context_manager()
        known = [*manager.get_input_components(), *manager.get_output_components(), *manager.get_constants()]
        taken = {item.name for item in known} | examination.suggested
        name = name_from_attr_path(path, taken, kind)
        if is_part:
            name = name_from_attr_path(f"{name}_{region.suffix}", taken, kind)
        examination.suggested.add(name)
        is_array = isinstance(self.experiments.resolve(path), np.ndarray)
        tensor = f"torch.from_numpy({path})" if is_array else path
        line = component_line(kind, name, f"{tensor}{region.code}")
        return "\n".join([*examination.imports(path), line]), name

    def _twins(self, name: str) -> Iterator[str]:
        """What always has the same value as a tensor."""
        others = [item.path for item in self.found if item.kind in ("input", "memory")]
        same = [
            path
            for path in (*others, *self._settled, *self._covered)
            if path != name and self.movement.always_equal(path, name)
        ]
        if same:
            yield f"always had the values of {same[0]}"

    # -- questions ---------------------------------------------------------------------------------------------------

    def _about_observation(self, examination: Examination, frozen: FrozenTensor) -> Question:
        finding = cached_observation_finding(examination, frozen)
        what = f"{finding.what} {finding.suggestion}; it is an Input only if the robot can give it as it is"
        return self._input_or_change(examination, frozen, what, finding.where)

    def _about_kept_actions(self, examination: Examination, frozen: FrozenTensor) -> Question:
        what = (
            "step() keeps the actions in it, so that the file would not: write it in process_actions(), and it is a "
            "Memory; it is an Input only if the robot can give it"
        )
        return self._input_or_change(examination, frozen, what, _where(frozen))

    def _input_or_change(self, examination: Examination, frozen: FrozenTensor, what: str, where: str) -> Question:
        """A question that has no other answer than an Input; else the environment has to be changed."""
        whole = regions(frozen.shape, np.ones(int(np.prod(frozen.shape)), dtype=bool))[0]
        line, _ = self._component("Input", examination, frozen.name, whole, is_part=False)
        self._tensors[frozen.name] = frozen.name
        return Question(frozen.name, what, where, {"input": line}, "")

    def _about(
        self, program: Program, examination: Examination, frozen: FrozenTensor, elements: Mapping[str, np.ndarray]
    ) -> Iterator[Question]:
        """What to ask about a tensor that no step changes; nothing if nothing points to a change."""
        watched = f"{self.movement.steps} steps and {self.movement.resets} resets"
        if _overlap(self.movement.by_resets.get(frozen.name), elements[frozen.name]):
            what = f"only resets have changed it, in {watched}: a constant of an episode, or a command"
        elif frozen.name in self.movement.rewritten and not _feeds_constants_alone(program, frozen):
            what = f"steps or resets write it, but always the same value, in {watched}"
        else:
            return
        likely = likely_answers(program, frozen, elements[frozen.name], self.movement)
        parts = [(answer, region) for answer, flags in likely.items() for region in regions(frozen.shape, flags)]
        for answer, region in parts:
            line, name = self._component("Input", examination, frozen.name, region, len(parts) > 1)
            tensor = line.splitlines()[-1].partition("get_from_env_cb=lambda: ")[2].removesuffix(")")
            constant = f'env.context_manager().add_constant("{name}", lambda: {tensor})'
            options = {"input": line, "constant": "\n".join([*line.splitlines()[:-1], constant])}
            self._tensors[f"{frozen.name}{region.code}"] = frozen.name
            yield Question(f"{frozen.name}{region.code}", what, _where(frozen), options, answer)

    def _decided(self, asked: Mapping[str, Question]) -> Iterator[Found]:
        """Components for questions that are decided; the others stay open."""
        for path, question in asked.items():
            if path in self._settled:
                continue
            answer = self._decisions.get(path)
            if answer is None:
                self.questions[path] = question
                continue
            if answer not in question.options:
                raise DiscoveryError(f"The decision about {path} must be one of {', '.join(question.options)}.")
            self._settled.add(path)
            code = question.options[answer]
            yield Found(answer, _name_in(code) or path, path, code, "as decided", question.where)


def _overlap(moved: np.ndarray | None, elements: np.ndarray) -> bool:
    """Whether flags have one in common; also if the tensor has had several shapes."""
    return moved is not None and (moved.shape != elements.shape or bool((moved & elements).any()))


def _feeds_constants_alone(program: Program, frozen: FrozenTensor) -> bool:
    """Whether all that reads a tensor are results that depend on nothing but stored tensors."""
    readers = [item for step in program.sources for item in step.values() if item.buffers & frozen.buffers]
    return bool(readers) and not any(item.inputs or item.random for item in readers)


def offered_components(env: ExportableEnvironment) -> list[Found]:
    """What the environment of a framework knows by itself. Its substitutes must not be in use."""
    if not isinstance(env, OffersPorts):
        return []
    return [
        Found(
            port.kind,
            port.name,
            port.name,
            f'env.add_ports("{port.name}")',
            "your choice: this, or others that it is computed from" if port.instead else "",
            "",
            f"env.add_ports({', '.join(map(_quoted, port.instead))})" if port.instead else "",
        )
        for port in env.offered_ports()
    ]


def _quoted(text: str) -> str:
    return f'"{text}"'


def asked_and_decided(search: Search) -> Iterable[str]:
    """The paths of all questions."""
    return (*search.questions, *(item.path for item in search.found if item.note == "as decided"))


def _still(region: Region, shape: tuple[int, ...], elements: np.ndarray, moved: np.ndarray) -> Iterator[str]:
    """What to know about the elements of a region: how many have not moved, or have no influence."""
    if moved.shape == elements.shape:
        inside = np.zeros(shape, dtype=bool)
        inside[tuple(slice(start, stop) for start, stop in region.bounds)] = True
        count = int((inside.reshape(-1) & elements & ~moved).sum())
        if count:
            yield f"{count} of {int(inside.sum())} elements have not moved"
    if region.ignored:
        yield f"{region.ignored} elements have no influence"


def _where(frozen: FrozenTensor | None) -> str:
    return "" if frozen is None or frozen.where == UNKNOWN else frozen.where


def _name_in(code: str) -> str:
    """The name of the component that code makes; empty if it makes several, as for the state of an actor."""
    last = code.splitlines()[-1]
    for start in ('name="', 'add_constant("'):
        if start in last:
            return last.partition(start)[2].partition('"')[0]
    return ""
