"""The roles of tensors that would be constants in the file."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from enum import Enum, auto

import numpy as np

from exploy.capture.program import FrozenTensor, Program
from exploy.capture.sensitivity import Sensitivity
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.pipeline_alone import OwnChanges
from exploy.diagnosis.evidence.python_reads import python_read_matters
from exploy.diagnosis.evidence.stepping import Evidence

HasInfluence = Callable[[FrozenTensor, np.ndarray, Sequence[np.ndarray]], bool]


class Role(Enum):
    """The role of a tensor that would be a constant in the file."""

    CONSTANT = auto()
    IRRELEVANT = auto()
    MEMORY = auto()
    INPUT_OR_CACHE = auto()


def roles(experiments: Experiments, program: Program, own_changes: OwnChanges, evidence: Evidence) -> dict[str, Role]:
    """The role of each frozen tensor by name, except for declared constants."""
    stored = [item for item in program.frozen_and_weights if item.declared is None]
    sensitivity = Sensitivity(program, {name: change.values[-1] for name, change in evidence.changes.items()})

    def has_influence(frozen: FrozenTensor, elements: np.ndarray, values: Sequence[np.ndarray]) -> bool:
        if frozen.is_read_by_python and python_read_matters(experiments, frozen, elements, values):
            return True
        return sensitivity.depends_on(dataclasses.replace(frozen, is_read_by_python=False), elements, values)

    return {item.name: _role(item, has_influence, own_changes, evidence) for item in stored}


def _role(frozen: FrozenTensor, has_influence: HasInfluence, own_changes: OwnChanges, evidence: Evidence) -> Role:
    elements = np.zeros(math.prod(frozen.shape), dtype=bool)
    if frozen.name in own_changes.tensors:
        elements |= own_changes.tensors[frozen.name]
    change = evidence.changes.get(frozen.name)
    if change is not None:
        elements |= change.elements
    if not elements.any():
        return Role.CONSTANT
    if not has_influence(frozen, elements, change.values if change is not None else ()):
        return Role.IRRELEVANT
    return Role.MEMORY if frozen.is_written or frozen.name in own_changes.tensors else Role.INPUT_OR_CACHE
