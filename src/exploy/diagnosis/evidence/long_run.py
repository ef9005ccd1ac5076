"""Runs the pipeline alone for some hundred policy steps, to see what happens later than the steps that are watched.

The simulator is not stepped, so this is cheap. Python numbers that `step()` advances at a constant rate are advanced in
the same way. A policy step or sub-step whose operators or numbers are new is compared with the captured program.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from exploy.capture.perturbation import around
from exploy.capture.program import ACTIONS, FrozenTensor, Program
from exploy.comparison import difference
from exploy.diagnosis.evidence.counters import Counter
from exploy.diagnosis.evidence.experiments import Experiments, assign
from exploy.diagnosis.evidence.operator_trail import OperatorTrail
from exploy.environment.components import Input, Memory
from exploy.environment.observations import observation_ports
from exploy.environment.tensor_copies import cpu_copy, to_numpy
from exploy.live.location import runs_stages
from exploy.live.python_values import PythonValues
from exploy.live.snapshot import Snapshot
from exploy.verify.export_checks import TOLERANCE
from exploy.verify.frozen_watch import FrozenChange, FrozenWatch

runs_stages(__file__)

POLICY_STEPS = 300
_VARIATIONS = 4
_MAX_COUNTERS = 50


@dataclass(frozen=True)
class Deviation:
    """A policy step in which the pipeline does something that the program does not.

    Attributes:
        step: Number of the policy step; the first one of the run, 0, only shows what differs anyway.
        what: The first result that differs.
        where: The line of the first operator that is new; UNKNOWN if operators are only missing.
        random: The operator that draws random numbers, and its line; UNKNOWN if there is none.
        python: Python values before the step, by path, that differ from those at the start of the run.
    """

    step: int
    what: str
    where: str
    random: str
    python: dict[str, object]


@dataclass
class LongRun:
    """The result of a long run.

    Attributes:
        deviation: The first step that differs from the program; None if there is none.
        changes: Frozen tensors that had changed at that step, or at the end.
        steps: Number of policy steps that were made and agreed with the program.
        error: What the pipeline raised, which ended the run.
    """

    deviation: Deviation | None = None
    changes: list[FrozenChange[FrozenTensor]] = field(default_factory=list)
    steps: int = 0
    error: Exception | None = None


def run_pipeline_alone(experiments: Experiments, program: Program, counters: Mapping[str, Counter]) -> LongRun:
    """Run the pipeline alone, in a trial, until a result differs from the program.

    Inputs are set to values around the current ones. If the pipeline raises on these, or on the advanced numbers, it is
    run once more with the current ones. If it raises again, the run ends there.

    Args:
        experiments: The environment and its actor.
        program: The captured program.
        counters: Python numbers that `step()` advances, by path.
    """
    with experiments.trial(protect_unseen=False) as snapshot:
        run = _Run(experiments, program, snapshot, dict(list(counters.items())[:_MAX_COUNTERS]), vary=True).result()
        if run.error is not None:
            snapshot.restore()
            run = _Run(experiments, program, snapshot, {}, vary=False).result()
        return run


class _Run:
    """One run, from the state in which a snapshot was taken."""

    def __init__(
        self,
        experiments: Experiments,
        program: Program,
        snapshot: Snapshot,
        counters: dict[str, Counter],
        vary: bool,
    ):
        self._experiments = experiments
        self._manager = experiments.env.context_manager()
        self._program = program
        self._snapshot = snapshot
        self._counters = counters
        self._variations = self._inputs_around() if vary else []
        self._parts = (False, True) if experiments.env.decimation > 1 else (False,)
        self._addresses: dict[int, object] = {address: address for address in snapshot.addresses()}
        self._known: tuple[set[int], set[int]] = (set(), set())
        self._last: list[list[object]] = [[], []]
        self._before_policy_step: dict[str, torch.Tensor] = {}
        self._different_anyway: set[tuple[str, bool]] = set()

    def result(self) -> LongRun:
        run = LongRun()
        try:
            for run.steps in range(POLICY_STEPS):
                self._prepare(run.steps)
                for is_sub_step in self._parts:
                    found = self._part(is_sub_step)
                    if found is not None and run.steps > 0:
                        run.changes = self._changes()
                        run.deviation = Deviation(run.steps, *found, self._python_before(run.steps))
                        return run
            run.steps = POLICY_STEPS
        except Exception as error:
            run.error = error
        run.changes = self._changes()
        return run

    def _prepare(self, step: int) -> None:
        """Set the inputs, and advance the numbers that step() would have advanced."""
        if self._variations:
            for item in self._inputs():
                item.fetch().copy_(self._variations[step % _VARIATIONS][item.input_name])
        for attr_path, counter in self._counters.items():
            if step:
                assign(self._experiments.roots, attr_path, counter.after(step))

    def _part(self, is_sub_step: bool) -> tuple[str, str, str] | None:
        """Run the policy step or a sub-step; if a result is not the program's, return it with two lines of code."""
        tensors = {item.input_name: self._experiments.fetch(item) for item in self._manager.get_input_components()}
        before = {name: cpu_copy(tensor) for name, tensor in tensors.items() if tensor is not None}
        if not is_sub_step:
            self._before_policy_step = before
        names = self._addresses | {item.data_ptr(): name for name, item in tensors.items() if item is not None}
        with OperatorTrail(self._snapshot, names, self._last[is_sub_step]) as trail:
            read_results = self._run_stages(is_sub_step)
        self._last[is_sub_step] = trail.tokens
        if trail.is_same or (key := hash(tuple(trail.tokens))) in self._known[is_sub_step]:
            return None
        self._known[is_sub_step].add(key)
        what = self._difference(before, read_results(), is_sub_step)
        return None if what is None else (what, trail.where, trail.random)

    def _run_stages(self, is_sub_step: bool) -> Callable[[], dict[str, np.ndarray]]:
        """Run the stages, and return a function that reads their results."""
        stages = self._experiments.stages
        if is_sub_step:
            stages.sub_step()
            return self._experiments.outputs
        observations = stages.observe()
        actions = stages.act(observations)
        stages.process(actions)
        results = {**observation_ports(observations), ACTIONS: actions}
        return lambda: {name: to_numpy(value) for name, value in results.items()} | self._experiments.outputs()

    def _difference(
        self, before: dict[str, torch.Tensor], results: dict[str, np.ndarray], is_sub_step: bool
    ) -> str | None:
        program = self._program
        computed = program.run(program.examples | before | (self._carried() if is_sub_step else {}))[is_sub_step]
        rtol = max(TOLERANCE, 10 * program.precision)
        left_out = {name for name, part in self._different_anyway if part == is_sub_step} | program.random_outputs
        shown = None
        for name in [name for name in results if name in computed and name not in left_out]:
            found = difference(results[name], to_numpy(computed[name]), TOLERANCE, rtol, by_largest=True)
            if found is not None:
                self._different_anyway.add((name, is_sub_step))
                shown = shown or f"{name}, {found}"
        return shown

    def _carried(self) -> dict[str, torch.Tensor]:
        """What the last policy step of the program left for its sub-steps."""
        carried = [memory for memory in self._program.memories if memory.carried]
        if not carried:
            return {}
        computed, _ = self._program.run(self._program.examples | self._before_policy_step)
        return {memory.input_name: computed[memory.output_name] for memory in carried}

    def _python_before(self, step: int) -> dict[str, object]:
        """Run again up to a step, and return the Python values that have changed by then; none if that fails."""
        self._snapshot.restore()
        values = PythonValues(self._experiments.roots)
        with contextlib.suppress(Exception):
            for number in range(step):
                self._prepare(number)
                for is_sub_step in self._parts:
                    self._run_stages(is_sub_step)
            self._prepare(step)
            return values.changed()
        return {}

    def _changes(self) -> list[FrozenChange[FrozenTensor]]:
        stored = self._program.frozen_and_weights
        watch = FrozenWatch(self._experiments.env, self._experiments.actor, stored)
        return [FrozenChange(item.frozen, item.now.copy(), item.elements) for item in watch.changes()]

    def _inputs(self) -> list[Input]:
        return [item for item in self._manager.get_input_components() if not isinstance(item, Memory)]

    def _inputs_around(self) -> list[dict[str, torch.Tensor]]:
        generator = torch.Generator().manual_seed(0)
        return [
            {item.input_name: around(item.fetch(), generator) for item in self._inputs()} for _ in range(_VARIATIONS)
        ]
