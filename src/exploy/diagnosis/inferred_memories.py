"""Registers missing memories."""

import contextlib
from collections.abc import Callable, Iterator

import torch

from exploy.capture.program import FrozenTensor, Program
from exploy.capture.sensitivity import Sensitivity
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.pipeline_alone import changes_of_pipeline
from exploy.diagnosis.suggestion import name_from_attr_path
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Memory
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.python_values import PythonValues

_MAX_ROUNDS = 4


class InferredMemories:
    """Memories that an export registers automatically.

    Args:
        env: The environment.
        actor: The actor, in evaluation mode.
    """

    def __init__(self, env: ExportableEnvironment, actor: ExportableActor):
        self._manager = env.context_manager()
        self._experiments = Experiments(env, actor)
        self._attr_paths: dict[str, str] = {}

    @contextlib.contextmanager
    def taken_back_on_failure(self) -> Iterator[None]:
        """Unregister the memories if the block raises."""
        try:
            yield
        except BaseException:
            for name in self._attr_paths:
                self._manager.remove_component(name)
            raise

    def register(self, program: Program, capture: Callable[[], Program]) -> Program:
        """Register tensors that one policy step writes and the next one reads, and capture again until none is missing.

        Args:
            program: The program without these memories.
            capture: Captures the environment again.
        """
        for _ in range(_MAX_ROUNDS):
            missing = missing_memories(self._experiments, program)
            if not missing:
                break
            for frozen in missing:
                self._register(frozen.name)
            program = capture()
        return program

    def line(self) -> str | None:
        """One line that lists the registered memories; None if there are none."""
        if not self._attr_paths:
            return None
        registered = [f"{name} ({attr_path})" for name, attr_path in self._attr_paths.items()]
        return f"Registered as memories: {', '.join(registered)}."

    def _register(self, attr_path: str) -> None:
        taken = [*self._manager.get_input_components(), *self._manager.get_output_components()]
        name = name_from_attr_path(attr_path, {item.name for item in taken}, "Memory")
        self._manager.add_component(Memory(name, self._callback(attr_path)))
        self._attr_paths[name] = attr_path

    def _callback(self, attr_path: str) -> Callable[[], torch.Tensor]:
        return lambda: self._experiments.resolve(attr_path)


def missing_memories(experiments: Experiments, program: Program) -> list[FrozenTensor]:
    """Frozen tensors that the pipeline changes and that results depend on."""
    changed = changes_of_pipeline(experiments, program, PythonValues({})).tensors
    sensitivity = Sensitivity(program)
    return [
        frozen
        for frozen in program.frozen_and_weights
        if frozen.name in changed
        and frozen.declared is None
        and frozen.live is None
        and sensitivity.depends_on(frozen, changed[frozen.name] if changed[frozen.name].any() else None)
    ]
