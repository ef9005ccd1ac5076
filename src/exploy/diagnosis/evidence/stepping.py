"""Steps an environment with the actions of its actor, and collects evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from exploy.capture.program import FrozenTensor, Program
from exploy.diagnosis.evidence.counters import CounterWatch
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.stepped_program import SteppedProgram
from exploy.environment.observations import observation_arrays, step_environment, validated_observations
from exploy.environment.tensor_copies import to_numpy
from exploy.live.gradient_mode import gradient_mode_of
from exploy.live.python_values import PythonValues, same_value
from exploy.verify.closed_loop import ClosedLoop, RunLength
from exploy.verify.export_checks import TOLERANCE
from exploy.verify.frozen_watch import FrozenChange, FrozenWatch
from exploy.verify.tally import Tally

_LOOKS_AT_PYTHON = (1, 2, 3)
_FEW_OBJECTS = 10_000
_STEPS_LOOKED_INTO = 1


@dataclass
class Change:
    """The changes of a frozen tensor, with the step, position and values of the first one.

    `when` says when it changed, if not in the steps that were watched. `values` are the first and the last value.
    """

    first_step: int
    first_position: int
    steps: set[int]
    elements: np.ndarray
    before: object
    after: object
    when: str = ""
    values: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class NotFinite:
    """The first value that was not finite, and the inputs of the program at that time."""

    step: int
    index: tuple[int, ...]
    value: float
    program_inputs: dict[str, torch.Tensor]


@dataclass
class Evidence:
    """What was observed while an environment was stepped.

    `python_later` has Python values at other times, by path: after a reset, or after many runs of the pipeline.
    """

    steps: int = 0
    resets: int = 0
    sub_steps: list[int] = field(default_factory=list)
    sees_sub_steps: bool = False
    changes: dict[str, Change] = field(default_factory=dict)
    not_finite: dict[str, NotFinite] = field(default_factory=dict)
    python_before: dict[str, object] = field(default_factory=dict)
    python_after: dict[str, object] = field(default_factory=dict)
    python_later: list[dict[str, object]] = field(default_factory=list)
    counters: CounterWatch = field(default_factory=CounterWatch)
    tally: Tally = field(default_factory=lambda: Tally(TOLERANCE, TOLERANCE))
    error: Exception | None = None

    def note_change(self, change: FrozenChange[FrozenTensor], step: int | None, when: str = "") -> None:
        """Note that a frozen tensor has changed, in a step that is watched, or else at another time."""
        frozen, elements = change.frozen, change.elements
        steps = set() if step is None else {step}
        known = self.changes.get(frozen.name)
        if known is not None:
            known.steps |= steps
            known.elements |= elements
            known.values[1:] = [change.now.copy()]
            return
        first = int(elements.argmax())
        before, after = values_at(frozen, change.now, first)
        values = [change.now.copy()]
        self.changes[frozen.name] = Change(step or 0, first, steps, elements, before, after, when, values)

    def note_python(self, values: Mapping[str, object]) -> None:
        """Note Python values, by path, that differ from those at the export at another time than after a step."""
        known = {attr_path: value for attr_path, value in values.items() if attr_path in self.python_before}
        if known and not any(_same_values(known, other) for other in self.python_later):
            self.python_later.append(known)


def _same_values(one: Mapping[str, object], two: Mapping[str, object]) -> bool:
    return one.keys() == two.keys() and all(same_value(value, two[name]) for name, value in one.items())


def step_and_watch(
    experiments: Experiments,
    program: Program | None,
    stepped: SteppedProgram | None,
    values: PythonValues,
    steps: int,
) -> Evidence:
    """Make some policy steps, compare results, and note changes.

    An error in the environment ends the steps and is stored in the evidence.

    Args:
        experiments: The environment and its actor.
        program: The captured program, if there is one.
        stepped: The same program, to be stepped side by side with the environment.
        values: The current Python values.
        steps: Number of policy steps.
    """
    watcher = _Watcher(experiments, program, stepped, values)
    evidence = watcher.evidence
    try:
        if stepped is not None:
            env, actor, tally = experiments.env, experiments.actor, evidence.tally
            loop = ClosedLoop(
                env,
                env.context_manager(),
                stepped,
                actor,
                tally,
                reseed_every=1,
                watch=watcher.look,
                watch_closely=True,
                starts_stored=False,
            )
            experiments.observations = loop.run(RunLength(steps), watcher.after_step, experiments.step_functions)
            evidence.resets, evidence.sub_steps = loop.resets, loop.sub_steps
            evidence.sees_sub_steps = loop.sees_sub_steps
        else:
            _step_alone(experiments, steps, watcher)
    except Exception as error:
        evidence.error = error
    watcher.look_at_python()
    return evidence


def _step_alone(experiments: Experiments, steps: int, watcher: "_Watcher") -> None:
    """Make steps without a program to compare with."""
    env, actor = experiments.env, experiments.actor
    with gradient_mode_of(env.context_manager()):
        observations = validated_observations(env, "observations_reset")
        for step in range(steps):
            for name, value in observation_arrays(observations).items():
                watcher.note(name, value, step)
            actions = actor(observations)
            watcher.note("actions", to_numpy(actions), step)
            observations, done = step_environment(env, actions)
            if done:
                watcher.evidence.resets += 1
                observations = validated_observations(env, "observations_reset")
            watcher.after_step(step)


class _Watcher:
    """Checks frozen tensors, inputs and Python values, and notes new changes."""

    def __init__(
        self,
        experiments: Experiments,
        program: Program | None,
        stepped: SteppedProgram | None,
        values: PythonValues,
    ):
        self._experiments = experiments
        self._stepped = stepped
        env, actor = experiments.env, experiments.actor
        stored = program.frozen_and_weights if program is not None else []
        parameters = {item.name for item in stored if isinstance(experiments.live(item), torch.nn.Parameter)}
        self._state = FrozenWatch(env, actor, [item for item in stored if item.name not in parameters])
        self._parameters = FrozenWatch(env, actor, [item for item in stored if item.name in parameters])
        self._steps_begun = 0
        rtol = max(TOLERANCE, 10 * program.precision if program is not None else 0.0)
        self._python = values
        tally = Tally(TOLERANCE, rtol, lambda seen: self.note(seen.name, seen.expected, seen.step))
        counters = CounterWatch(self._python.values)
        self.evidence = Evidence(tally=tally, python_before=self._python.values, counters=counters)

    def look(self, step: int) -> None:
        watches = [self._state]
        if step >= self._steps_begun:  # parameters are large, and no step changes them and puts them back
            self._steps_begun = step + 1
            watches.append(self._parameters)
        for watch in watches:
            for change in watch.changes(lambda frozen: not self._is_known(frozen, step)):
                self.evidence.note_change(change, step)
        for item in self._experiments.env.context_manager().get_input_components():
            tensor = self._experiments.fetch(item)
            if tensor is not None:
                self.note(item.input_name, to_numpy(tensor), step)
        if step < _STEPS_LOOKED_INTO and len(self._python) < _FEW_OBJECTS:
            self.look_at_python()  # what step() sets for a sub-step and puts back

    def after_step(self, step: int) -> None:
        self.evidence.steps = step + 1
        if step + 1 in _LOOKS_AT_PYTHON or len(self._python) < _FEW_OBJECTS:
            self.look_at_python()

    def look_at_python(self) -> None:
        changed = self._python.changed()
        self.evidence.counters.note(changed)
        for attr_path, value in changed.items():
            if attr_path in self.evidence.python_before:
                self.evidence.python_after.setdefault(attr_path, value)

    def note(self, name: str, value: np.ndarray, step: int) -> None:
        """Note the first value of a tensor that is not finite."""
        if name in self.evidence.not_finite or value.dtype.kind not in "fc" or np.isfinite(value).all():
            return
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
        values = dict(self._stepped.last_values) if self._stepped is not None else {}
        self.evidence.not_finite[name] = NotFinite(step, index, float(value[index]), values)

    def _is_known(self, frozen: FrozenTensor, step: int) -> bool:
        known = self.evidence.changes.get(frozen.name)
        return known is not None and step in known.steps


def values_at(frozen: FrozenTensor, now: np.ndarray, position: int) -> tuple[object, object]:
    """The stored and another value of a frozen tensor at a position in the flattened tensor."""
    before = frozen.value[position if frozen.elements is None else np.searchsorted(frozen.elements, position)]
    return before.item(), now.reshape(-1)[position].item() if now.shape == frozen.shape else f"shape {now.shape}"
