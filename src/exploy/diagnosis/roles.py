"""What the tensors that a file would keep as constants turn out to be."""

from enum import Enum, auto

import numpy as np

from exploy.diagnosis.pipeline_alone import OwnChanges
from exploy.diagnosis.stepping import Evidence
from exploy.exporter.capture.program import FrozenTensor, Program


class Role(Enum):
    """What a tensor that the file would keep as a constant turns out to be."""

    CONSTANT = auto()
    IRRELEVANT = auto()
    MEMORY = auto()
    INPUT_OR_CACHE = auto()


def roles(program: Program, own_changes: OwnChanges, evidence: Evidence) -> dict[str, Role]:
    """The role of each frozen tensor by name, but for those that the user has declared."""
    stored = [item for item in (*program.frozen, *program.weights) if item.declared is None]
    return {item.name: _role(item, program, own_changes, evidence) for item in stored}


def _role(frozen: FrozenTensor, program: Program, own_changes: OwnChanges, evidence: Evidence) -> Role:
    nowhere = np.array([], dtype=np.int64)
    change = evidence.changes.get(frozen.name)
    own = own_changes.tensors.get(frozen.name, nowhere)
    positions = np.union1d(own, nowhere if change is None else change.positions).astype(np.int64)
    if not positions.size:
        return Role.CONSTANT
    if not program.depends_on(frozen, positions):
        return Role.IRRELEVANT
    return Role.MEMORY if frozen.is_written or frozen.name in own_changes.tensors else Role.INPUT_OR_CACHE
