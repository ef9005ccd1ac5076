"""Finds tensors of an environment that depend on the actions: candidates for Outputs."""

import numpy as np
import torch

from exploy.diagnosis.evidence.experiments import Experiments, equal
from exploy.environment.components import Memory
from exploy.environment.tensor_copies import to_numpy
from exploy.live.attribute_paths import BOOKKEEPING
from exploy.live.geometry import Geometry, has_memory
from exploy.live.object_graph import is_a, walk

_OTHER_ACTIONS = 10.0  # large enough to change a sign or leave a dead zone
_MAX_ELEMENTS = 1_000_000


def moved_by_actions(experiments: Experiments) -> dict[str, tuple[int, ...]]:
    """Tensors that depend on the actions and are not ports, with their shapes; copies of the actions come last."""
    states = []
    with experiments.trial() as snapshot:
        raw = experiments.stages.act(experiments.stages.observe()).clone()
        for actions in (raw, raw + _OTHER_ACTIONS, raw - _OTHER_ACTIONS):
            experiments.stages.observe()
            experiments.stages.process(actions.clone())
            states.append(_small_tensors({"env": experiments.env}))
            snapshot.restore()
        raw_values = to_numpy(raw)
    before, *others = states
    moved = {
        attr_path: value
        for attr_path, value in before.items()
        if any(attr_path in after and not equal(value, after[attr_path]) for after in others)
        and not _is_port(experiments, attr_path)
    }
    ordered = sorted(moved, key=lambda attr_path: equal(moved[attr_path], raw_values))
    return {attr_path: moved[attr_path].shape for attr_path in ordered}


def _is_port(experiments: Experiments, attr_path: str) -> bool:
    manager = experiments.env.context_manager()
    tensor = experiments.resolve(attr_path)
    inputs = [experiments.fetch(item) for item in manager.get_input_components()]
    outputs = [item.fetch() for item in manager.get_output_components() if not isinstance(item, Memory)]
    ports = [port for port in (*inputs, *outputs) if port is not None]
    return isinstance(tensor, torch.Tensor) and any(Geometry.of(tensor).overlaps(Geometry.of(port)) for port in ports)


def _small_tensors(roots: dict[str, object]) -> dict[str, np.ndarray]:
    found = walk(roots, skip=BOOKKEEPING)
    return {
        item.attr_path: to_numpy(item.value)
        for item in found
        if is_a(item.value, torch.Tensor) and has_memory(item.value) and item.value.numel() <= _MAX_ELEMENTS
    }
