"""What the tensors that a file would keep as constants turn out to be."""

import math
from enum import Enum, auto

import numpy as np

from exploy.capture.program import FrozenTensor, Program
from exploy.capture.sensitivity import Sensitivity
from exploy.diagnosis.evidence.pipeline_alone import OwnChanges
from exploy.diagnosis.evidence.stepping import Evidence


class Role(Enum):
    """What a tensor that the file would keep as a constant turns out to be."""

    CONSTANT = auto()
    IRRELEVANT = auto()
    MEMORY = auto()
    INPUT_OR_CACHE = auto()


def roles(program: Program, own_changes: OwnChanges, evidence: Evidence) -> dict[str, Role]:
    """The role of each frozen tensor by name, but for those that the user has declared."""
    stored = [item for item in program.frozen_and_weights if item.declared is None]
    sensitivity = Sensitivity(program)
    return {item.name: _role(item, sensitivity, own_changes, evidence) for item in stored}


def _role(frozen: FrozenTensor, sensitivity: Sensitivity, own_changes: OwnChanges, evidence: Evidence) -> Role:
    elements = np.zeros(math.prod(frozen.shape), dtype=bool)
    if frozen.name in own_changes.tensors:
        elements |= own_changes.tensors[frozen.name]
    if frozen.name in evidence.changes:
        elements |= evidence.changes[frozen.name].elements
    if not elements.any():
        return Role.CONSTANT
    if not sensitivity.depends_on(frozen, elements):
        return Role.IRRELEVANT
    return Role.MEMORY if frozen.is_written or frozen.name in own_changes.tensors else Role.INPUT_OR_CACHE
