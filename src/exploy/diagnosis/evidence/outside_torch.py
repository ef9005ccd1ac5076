"""Finds tensors that the pipeline changes without torch, and the Warp kernels that do so."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from exploy.capture.program import FrozenTensor
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.probing import WriteLog, overwritten
from exploy.live.attribute_paths import BOOKKEEPING, index_paths
from exploy.live.geometry import Geometry, has_memory
from exploy.live.location import UNKNOWN, calling_line
from exploy.live.object_graph import instance_dict, walk

_POLICY_STEPS = 2


@dataclass(frozen=True)
class Launch:
    """A launch of a Warp kernel: its name, its arrays as `argument: path`, their memory, and the line of user code."""

    kernel: str
    arrays: tuple[str, ...]
    bounds: tuple[tuple[int, int], ...]
    where: str

    def __str__(self) -> str:
        return f"{self.kernel}({', '.join(self.arrays)})"

    def touches(self, place: Geometry) -> bool:
        """Whether one of its arrays shares memory with a tensor."""
        return any(place.start < stop and start < place.stop for start, stop in self.bounds)


def written_outside_torch(experiments: Experiments, suspects: list[FrozenTensor]) -> dict[str, list[Launch]]:
    """Tensors that two policy steps write where they are, though no torch operator does so, by name.

    The tensors get an implausible value first: with the simulator at rest, the steps may write what is there already.

    Returns:
        For each of them the Warp kernels that were launched on its memory; none if something else writes it.

    Raises:
        Exception: Any error that the environment raises.
    """
    suspects = [item for item in suspects if not item.is_written]
    if not suspects:
        return {}
    with experiments.trial():
        before = {item.name: _spoilt(experiments, item) for item in suspects}
        with WriteLog() as log, launches(experiments) as launched:
            for _ in range(_POLICY_STEPS):
                experiments.policy_step()
        found: dict[str, list[Launch]] = {}
        for item in suspects:
            spoilt, live = before[item.name], _tensor(experiments, item)
            if spoilt is None or live is None:
                continue
            place, value = spoilt
            if place.same_place(Geometry.of(live)) and not torch.equal(value, live) and log.writer(live) is None:
                found[item.name] = [launch for launch in launched if launch.touches(place)]
    return found


def _spoilt(experiments: Experiments, frozen: FrozenTensor) -> tuple[Geometry, torch.Tensor] | None:
    """Overwrite a tensor, and return its place and a copy of the value."""
    live = _tensor(experiments, frozen)
    value = overwritten(live)
    return None if value is None or live is None else (Geometry.of(live), value)


def _tensor(experiments: Experiments, frozen: FrozenTensor) -> torch.Tensor | None:
    live = experiments.live(frozen)
    if isinstance(live, np.ndarray) and live.flags.writeable:
        live = torch.from_numpy(live)
    return live if isinstance(live, torch.Tensor) and has_memory(live) else None


@contextlib.contextmanager
def launches(experiments: Experiments) -> Iterator[list[Launch]]:
    """Note the Warp kernels that are launched in a block; none if Warp is not imported."""
    found: list[Launch] = []
    launch = getattr(sys.modules.get("warp"), "launch", None)
    if launch is None:
        yield found
        return
    paths = _ArrayPaths(experiments.roots)

    def noted(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(_launch(kernel, args, kwargs, paths))
        return launch(kernel, *args, **kwargs)

    holders = [module for module in list(sys.modules.values()) if getattr(module, "launch", None) is launch]
    try:
        for module in holders:
            module.launch = noted  # type: ignore[attr-defined]
        yield found
    finally:
        for module in holders:
            module.launch = launch  # type: ignore[attr-defined]


class _ArrayPaths:
    """The attribute paths of arrays of Warp, or of tensors that share their memory."""

    def __init__(self, roots: dict[str, object]):
        self._tensors = index_paths(roots)
        found = walk(roots, skip=BOOKKEEPING)
        self._arrays = {instance_dict(value)["ptr"]: path for path, value in found if "ptr" in instance_dict(value)}

    def find(self, start: int, size: int) -> str | None:
        named = self._tensors.find(Geometry(start, (size,), (1,), torch.uint8))
        return named.attr_path if named is not None else self._arrays.get(start)


def _launch(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], paths: _ArrayPaths) -> Launch:
    inputs = kwargs.get("inputs", args[1] if len(args) > 1 else ())
    outputs = kwargs.get("outputs", args[2] if len(args) > 2 else ())
    labels = [str(item.label) for item in getattr(getattr(kernel, "adj", None), "args", ())]
    arrays, bounds = [], []
    for position, value in enumerate((*inputs, *outputs)):
        start, size = getattr(value, "ptr", None), getattr(value, "capacity", None)
        if not isinstance(start, int) or not isinstance(size, int) or not size:
            continue
        label = labels[position] if position < len(labels) else str(position)
        attr_path = paths.find(start, size)
        arrays.append(f"{label}: {attr_path}" if attr_path is not None else label)
        bounds.append((start, start + size))
    where = calling_line()
    name = str(getattr(kernel, "key", kernel))
    return Launch(name, tuple(arrays), tuple(bounds), "" if where == UNKNOWN else where)
