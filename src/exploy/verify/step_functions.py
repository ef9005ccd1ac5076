"""The functions by which a step of an environment computes observations and applies actions, found by trying."""

import contextlib
import types
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from exploy.environment.actor import ExportableActor
from exploy.environment.components import Output
from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.environment.stages import Stages
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ActorError
from exploy.live.interception import intercepted
from exploy.live.roots import live_objects
from exploy.live.snapshot import ProtectUnseen, Snapshot
from exploy.live.stage_functions import StageFunction, functions_of_stages

_SHIFT = 1.0


@dataclass(frozen=True)
class StepFunctions:
    """Functions of user code whose calls show what a step does inside.

    Args:
        observe: Those that only `compute_observations()` calls, outermost first; none if Inputs or memories are changed
            before it is called.
        apply: Those that only `apply_actions()` calls, outermost first.
        complete: Those of `apply` at whose return all Outputs have the values that `apply_actions()` gives them.
    """

    observe: tuple[StageFunction, ...] = ()
    apply: tuple[StageFunction, ...] = ()
    complete: frozenset[types.CodeType] = frozenset()


def find_step_functions(env: ExportableEnvironment, actor: ExportableActor | None) -> StepFunctions:
    """Run the pipeline twice without stepping, on a snapshot, and note which functions each stage calls.

    Everything is as before afterwards. Nothing is found where the pipeline cannot be run now.
    """
    snapshot = Snapshot(live_objects(env, actor if actor is not None else torch.nn.Module()))
    try:
        with snapshot, ProtectUnseen(snapshot), snapshot.gradient_mode():
            return _find(env, actor, snapshot)
    except Exception:
        return StepFunctions()


def _find(env: ExportableEnvironment, actor: ExportableActor | None, snapshot: Snapshot) -> StepFunctions:
    pipeline = _Pipeline(env, actor)
    stages = {
        "prepare": pipeline.prepare,
        "observe": pipeline.observe,
        "act": pipeline.act,
        "process": pipeline.process,
        "apply": env.apply_actions,
        "read": pipeline.read,
    }
    methods = {"observe": type(env).compute_observations, "apply": type(env).apply_actions}
    found = functions_of_stages(stages, methods, snapshot.kinds.values(), snapshot.restore)
    snapshot.restore()
    observe = [] if _changes_inputs(pipeline) else found["observe"]
    complete = _complete(pipeline, found["apply"])
    return StepFunctions(tuple(observe), tuple(found["apply"]), complete)


class _Pipeline:
    """The stages of a policy step, each a call without arguments."""

    def __init__(self, env: ExportableEnvironment, actor: ExportableActor | None):
        self.env = env
        self._actor = actor
        self._observations: Observations = None
        self._actions = env.empty_actions()

    def prepare(self) -> None:
        self.env.context_manager().write_connections()
        for update in self.env.command_updates:
            update()

    def observe(self) -> None:
        self._observations = self.env.compute_observations()

    def act(self) -> None:
        if self._actor is not None:
            self._actions = Stages(self.env, self._actor).act(self._observations)

    def process(self) -> None:
        self.env.process_actions(self._actions)

    def read(self) -> None:
        """Call the callbacks of all components: what they call belongs to no stage, since it is called by reading."""
        manager = self.env.context_manager()
        for item in (*manager.get_input_components(), *manager.get_output_components()):
            with contextlib.suppress(ActorError):  # the actor has dropped its state
                item.fetch()


def _changes_inputs(pipeline: _Pipeline) -> bool:
    """Whether connections or command updates change Inputs or memories before observations are computed."""
    components = pipeline.env.context_manager().get_input_components()
    before = [to_numpy(item.fetch()) for item in components]
    pipeline.prepare()
    return not all(map(_equal, before, [to_numpy(item.fetch()) for item in components]))


def _complete(pipeline: _Pipeline, functions: list[StageFunction]) -> frozenset[types.CodeType]:
    """The functions at whose last return in `apply_actions()` all Outputs have their final values.

    The Outputs are changed before, so that one which is only assigned after the return shows.
    """
    outputs = pipeline.env.context_manager().get_output_components()
    values: dict[types.CodeType, list[np.ndarray]] = {}

    def read(code: types.CodeType) -> None:
        values[code] = [item.value_numpy for item in outputs]

    for stage in (pipeline.observe, pipeline.act, partial(_shift, outputs), pipeline.process):
        stage()
    with intercepted([each for item in functions for each in item.functions], lambda code: None, read):
        pipeline.env.apply_actions()
    final = [item.value_numpy for item in outputs]
    return frozenset(code for code, seen in values.items() if all(map(_equal, seen, final)))


def _shift(outputs: list[Output]) -> None:
    for item in outputs:
        tensor = item.fetch()
        with contextlib.suppress(RuntimeError):  # a tensor that cannot be written to in place
            tensor.copy_(~tensor if tensor.dtype == torch.bool else tensor + _SHIFT)


def _equal(one: np.ndarray, two: np.ndarray) -> bool:
    return np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
