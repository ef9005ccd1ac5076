"""Registers missing memories."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from exploy.capture.program import Program
from exploy.capture.sensitivity import Sensitivity
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.outside_torch import written_outside_torch
from exploy.diagnosis.evidence.pipeline_alone import changes_of_pipeline
from exploy.diagnosis.evidence.rotation import Rotation, rotating_groups, separate
from exploy.diagnosis.suggestion import name_from_attr_path
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Memory
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.geometry import Geometry
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
        self._separated: list[tuple[Any, list[Any]]] = []

    @contextlib.contextmanager
    def taken_back_on_failure(self) -> Iterator[None]:
        """Unregister the memories if the block raises."""
        try:
            yield
        except BaseException:
            for name in self._attr_paths:
                self._manager.remove_component(name)
            for container, items in self._separated:
                container.clear()
                container.extend(items)
            raise

    def register(self, program: Program, capture: Callable[[], Program]) -> Program:
        """Register tensors that one policy step writes and a later one reads, and capture again until none is missing.

        If a list has one tensor in several places, and the pipeline moves its elements, each place gets a copy; now
        and each time that a memory is read.

        Args:
            program: The program without these memories.
            capture: Captures the environment again.
        """
        for _ in range(_MAX_ROUNDS):
            missing = missing_memories(self._experiments, program)
            if not missing:
                break
            for group in missing:
                self._note_shared(group.shared)
                for attr_path in group.attr_paths:
                    self._register(attr_path, group.shared)
            program = capture()
        return program

    def line(self) -> str | None:
        """One line that lists the registered memories; None if there are none."""
        if not self._attr_paths:
            return None
        registered = [f"{name} ({attr_path})" for name, attr_path in self._attr_paths.items()]
        return f"Registered as memories: {', '.join(registered)}."

    def _register(self, attr_path: str, shared: tuple[str, ...]) -> None:
        taken = [*self._manager.get_input_components(), *self._manager.get_output_components()]
        place = Geometry.of(self._callback(attr_path, shared)())
        if any(Geometry.of(item.fetch()).overlaps(place) for item in self._manager.get_input_components()):
            return  # an element of a group that the user has registered
        name = name_from_attr_path(attr_path, {item.name for item in taken}, "Memory")
        self._manager.add_component(Memory(name, self._callback(attr_path, shared)))
        self._attr_paths[name] = attr_path

    def _note_shared(self, attr_paths: Iterable[str]) -> None:
        for attr_path in attr_paths:
            container = self._experiments.resolve(attr_path)
            if not isinstance(container, tuple):
                self._separated.append((container, list(container)))

    def _callback(self, attr_path: str, shared: tuple[str, ...]) -> Callable[[], torch.Tensor]:
        def callback() -> torch.Tensor:
            separate(self._experiments, shared)
            found: torch.Tensor | np.ndarray = self._experiments.resolve(attr_path)
            return torch.from_numpy(found) if isinstance(found, np.ndarray) else found

        return callback


def missing_memories(experiments: Experiments, program: Program) -> list[Rotation]:
    """Frozen tensors that the pipeline changes and that results depend on, with those that move to their places.

    What code outside of torch writes is left out: no file could write it.
    """
    changes = changes_of_pipeline(experiments, program, PythonValues({}))
    changed = changes.tensors
    sensitivity = Sensitivity(program)
    missing = [
        frozen
        for frozen in program.frozen_and_weights
        if frozen.name in changed
        and frozen.declared is None
        and frozen.live is None
        and sensitivity.depends_on(frozen, changed[frozen.name] if changed[frozen.name].any() else None)
    ]
    outside = written_outside_torch(experiments, missing)
    return rotating_groups([item.name for item in missing if item.name not in outside], changes.rotations)
