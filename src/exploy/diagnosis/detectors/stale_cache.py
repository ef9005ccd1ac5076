"""Finds out whether a tensor is a cache of the environment, and what makes the environment compute it anew.

A cache is told from a sensor by experiment: the Python values that stood at the time when the environment last computed
it (a flag, a time stamp, a None) are put back one by one, until computing the observations computes it again.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from exploy.capture.program import FrozenTensor
from exploy.diagnosis.evidence.experiments import ABSENT, Experiments, assign
from exploy.diagnosis.evidence.probing import Probe
from exploy.diagnosis.suggestion import assignment, name_from_attr_path, removal

_MAX_TRIALS = 64


@dataclass(frozen=True)
class Refresh:
    """What makes an environment compute a cache anew: a value at a path; `seen` is the one that did so before."""

    attr_path: str
    value: object
    seen: object

    @property
    def condition(self) -> str:
        """When the environment computes the cache anew."""
        return f"when {self.attr_path} was {'not there' if self.seen is ABSENT else repr(self.seen)}"

    @property
    def suggestion(self) -> str:
        """A Connection, which runs before every step and sub-step."""
        name = f"refresh_{name_from_attr_path(self.attr_path, ())}"
        if self.value is ABSENT:
            return f'Connection(name="{name}", getter=lambda: None, setter=lambda _: {removal(self.attr_path)})'
        setter = assignment(self.attr_path, "value")
        return f'Connection(name="{name}", getter=lambda: {self.value!r}, setter=lambda value: {setter})'


def find_refreshes(experiments: Experiments, probes: list[Probe]) -> dict[str, Refresh]:
    """For those of some frozen tensors that are caches, by name: what makes the environment compute them anew.

    A tensor for which nothing is found is taken for no cache.
    """
    found: dict[str, Refresh] = {}
    for values in dict.fromkeys(item.values for item in probes):
        suspects = [item.frozen for item in probes if item.values == values]
        found |= _search(experiments, suspects, values)
    return found


def _search(
    experiments: Experiments, suspects: list[FrozenTensor], values: tuple[tuple[str, object], ...]
) -> dict[str, Refresh]:
    found: dict[str, Refresh] = {}
    with experiments.trial() as snapshot:
        for attr_path, then in values[:_MAX_TRIALS]:
            for value in _values_to_try(then):
                left = [frozen for frozen in suspects if frozen.name not in found]
                if not left:
                    return found
                for name in _refreshed_by(experiments, left, attr_path, value):
                    found[name] = Refresh(attr_path, value, then)
                snapshot.restore()
    return found


def _values_to_try(value: object) -> Iterator[object]:
    if isinstance(value, float):
        yield -1.0
    elif isinstance(value, int) and not isinstance(value, bool):
        yield -1
    yield value


def _refreshed_by(experiments: Experiments, suspects: list[FrozenTensor], attr_path: str, value: object) -> list[str]:
    """Which of some tensors, once spoilt, observations overwrite when there is another value at a path; tried twice."""
    refreshed = suspects
    for _ in range(2):
        spoilt = {frozen.name: _overwritten(experiments.live(frozen)) for frozen in refreshed}
        with contextlib.suppress(Exception):
            assign(experiments.roots, attr_path, value)
            experiments.stages.observe()
        refreshed = [frozen for frozen in refreshed if _differs(experiments.live(frozen), spoilt[frozen.name])]
        if not refreshed:
            break
    return [frozen.name for frozen in refreshed]


def _overwritten(tensor: object) -> torch.Tensor | None:
    """Overwrite a tensor with something that nobody would compute, and return a copy of that."""
    if not isinstance(tensor, torch.Tensor):
        return None
    spoilt = ~tensor if tensor.dtype == torch.bool else torch.full_like(tensor, 77)
    tensor.copy_(spoilt)
    return spoilt


def _differs(tensor: object, spoilt: torch.Tensor | None) -> bool:
    if not isinstance(tensor, torch.Tensor) or spoilt is None:
        return False
    return tensor.shape != spoilt.shape or not torch.equal(tensor, spoilt)
