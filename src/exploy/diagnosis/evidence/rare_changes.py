"""Looks for changes that are rarer than the steps that are watched: at resets, and in a long run of the pipeline."""

import dataclasses
from dataclasses import dataclass, field

from exploy.capture.program import FrozenTensor, Program
from exploy.diagnosis.evidence.counters import Counter
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.long_run import LongRun, run_pipeline_alone
from exploy.diagnosis.evidence.pipeline_alone import OwnChanges
from exploy.diagnosis.evidence.stepping import Evidence
from exploy.environment.exportable_environment import has_reset
from exploy.live.python_values import PythonValues
from exploy.verify.frozen_watch import FrozenWatch
from exploy.verify.start_values import Resets
from exploy.verify.stepped import Values

_RESETS = 2
_SECONDS_PER_STEP = 0.02  # slower simulators make fewer steps
AFTER_A_RESET = "after a reset"


@dataclass
class SeenResets:
    """Resets that a check made happen.

    Attributes:
        starts: The memories after each reset, by name.
        steps: Number of policy steps that led to them.
        counters: Python numbers that steps advance, and how far if a reset sets them back.
        error: What the environment raised.
        ended_by: What the environment raised in the steps after the resets.
    """

    starts: list[Values] = field(default_factory=list)
    steps: int = 0
    counters: dict[str, Counter] = field(default_factory=dict)
    error: Exception | None = None
    ended_by: Exception | None = None


def watch_resets(
    experiments: Experiments, program: Program, evidence: Evidence, values: PythonValues, within: int
) -> SeenResets:
    """Reset the environment twice in a trial, step on, and note frozen tensors and Python values that have changed.

    A step is made between the resets. Then steps are made until there were `within` of them, or fewer if they are slow:
    a command may be drawn anew every few hundred steps only. Ends at an error of the environment.

    Args:
        experiments: The environment and its actor.
        program: The captured program.
        evidence: What was observed so far; changes are added.
        values: The Python values at the capture.
        within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
    """
    seen = SeenResets(counters=evidence.counters.counters())

    def look(stored: list[FrozenTensor], when: str) -> None:
        watch = FrozenWatch(experiments.env, experiments.actor, stored)
        for change in watch.changes(lambda frozen: frozen.declared is None and frozen.name not in evidence.changes):
            evidence.note_change(change, None, when)

    def look_after_step() -> None:
        look(program.frozen, f"{evidence.steps + resets.steps} steps after the export")  # weights take too long

    with experiments.trial():
        functions, written = experiments.step_functions, program.written_by_observations
        resets = Resets(experiments.env, experiments.actor, written, within, functions, look_after_step)
        try:
            while len(seen.starts) < _RESETS and (start := resets.values()) is not None:
                look(program.frozen_and_weights, AFTER_A_RESET)
                changed = values.changed()
                evidence.note_python(changed)
                if not seen.starts and resets.steps:
                    seen.counters = _bounded(seen.counters, changed, resets.steps)
                seen.starts.append(start)
                if has_reset(experiments.env):
                    resets.step_on(1)
        except Exception as error:
            seen.error = error
        else:
            seen.ended_by = _step_on(resets, within)
            evidence.note_python(values.changed())
        seen.steps = resets.steps
    return seen


def _step_on(resets: Resets, within: int) -> Exception | None:
    """Make steps, and return what the environment raises."""
    try:
        resets.step_on(within - resets.steps, within * _SECONDS_PER_STEP)
    except Exception as error:
        return error
    return None


def _bounded(counters: dict[str, Counter], now: dict[str, object], steps: int) -> dict[str, Counter]:
    """Say of counters that a reset has set back that they go no further than to the reset."""

    def is_set_back(attr_path: str, counter: Counter) -> bool:
        value = now.get(attr_path)  # may be ahead: a reset may compute observations once more
        return not isinstance(value, int | float) or (value - counter.after(steps)) / counter.rate < -0.5

    return {
        attr_path: dataclasses.replace(counter, steps=steps - 1) if is_set_back(attr_path, counter) else counter
        for attr_path, counter in counters.items()
    }


def watch_long_run(
    experiments: Experiments, program: Program, evidence: Evidence, own_changes: OwnChanges, resets: SeenResets
) -> LongRun:
    """Run the pipeline alone for long, and note what it changes and which Python values lead to other results.

    Args:
        experiments: The environment and its actor.
        program: The captured program.
        evidence: What was observed so far; changes are added.
        own_changes: What the pipeline changes by itself; changes are added.
        resets: The resets that were seen.
    """
    run = run_pipeline_alone(experiments, program, resets.counters)
    for change in run.changes:
        known = evidence.changes.get(change.frozen.name)
        if known is None or known.when:  # what the steps have changed may be a cache that they make outdated
            own_changes.tensors.setdefault(change.frozen.name, change.elements)
            evidence.note_change(change, None, f"in {run.steps + 1} policy steps without the simulator")
    if run.deviation is not None:
        evidence.note_python(run.deviation.python)
    return run
