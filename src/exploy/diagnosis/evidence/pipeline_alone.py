"""Finds what the pipeline changes while the simulator is not stepped."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from exploy.capture.program import FrozenTensor, Program
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.rotation import Rotation, rotations, shares_a_place
from exploy.live.geometry import Geometry, has_memory
from exploy.live.python_values import PythonValues
from exploy.verify.frozen_watch import FrozenWatch

_POLICY_STEPS = 2


@dataclass
class OwnChanges:
    """Changes by two policy steps: elements of frozen tensors, as flags, and Python values by path.

    If a tensor is replaced by a tensor of the same value, none of its flags is set, unless its place gets a new tensor
    in some later step: then all are. `rotations` says from where tensors move to the place of a frozen one.
    """

    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    python: set[str] = field(default_factory=set)
    rotations: dict[str, Rotation] = field(default_factory=dict)


def changes_of_pipeline(experiments: Experiments, program: Program, values: PythonValues) -> OwnChanges:
    """Run two policy steps in a trial, right after the capture, and note what they change.

    Args:
        experiments: The environment and its actor.
        program: The result of the capture.
        values: The current Python values.

    Raises:
        Exception: Any error that the environment raises.
    """
    changes = OwnChanges()
    stored = program.frozen_and_weights
    with experiments.trial():
        watch = FrozenWatch(experiments.env, experiments.actor, stored)
        places = {frozen.name: _place(experiments, frozen) for frozen in stored}
        for _ in range(_POLICY_STEPS):
            experiments.policy_step()
            elsewhere = [item for item in stored if _has_moved(places[item.name], _place(experiments, item))]
            changed = {item.name: np.zeros(math.prod(item.shape), dtype=bool) for item in elsewhere}
            changed |= {change.frozen.name: change.elements for change in watch.changes()}
            for name, elements in changed.items():
                changes.tensors[name] = changes.tensors.get(name, elements) | elements
        changes.python = set(values.changed())
    moved = [item for item in stored if item.name in changes.tensors or shares_a_place(experiments, item.name)]
    changes.rotations = rotations(experiments, [item.name for item in moved])
    for item in moved:
        if item.name in changes.rotations and changes.rotations[item.name].is_refilled:
            changes.tensors[item.name] = np.ones(math.prod(item.shape), dtype=bool)
    return changes


def _place(experiments: Experiments, frozen: FrozenTensor) -> Geometry | None:
    live = experiments.live(frozen)
    return Geometry.of(live) if isinstance(live, torch.Tensor) and has_memory(live) else None


def _has_moved(before: Geometry | None, after: Geometry | None) -> bool:
    return before is not None and after is not None and not before.same_place(after)
