"""Finds out whether a tensor is a cache of the environment, and what makes the environment compute it again.

An experiment distinguishes a cache from a sensor: the Python values at the time of the last computation (a flag, a time
stamp, a None) are restored one by one, until computing the observations also computes the tensor again.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from exploy.capture.program import FrozenTensor
from exploy.diagnosis.evidence.experiments import ABSENT, Experiments, assign
from exploy.diagnosis.evidence.probing import Probe, overwritten
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.suggestion import assignment, removal

_MAX_TRIALS = 64


@dataclass(frozen=True)
class Refresh:
    """A value at a path that makes an environment compute a cache again; `seen` is the value that was observed."""

    attr_path: str
    value: object
    seen: object

    @property
    def condition(self) -> str:
        """When the environment computes the cache again."""
        return f"when {self.attr_path} is {'missing' if self.seen is ABSENT else repr(self.seen)}"

    def line(self, name: str) -> str:
        """Code that creates a Connection, which runs before every step and sub-step."""
        if self.value is ABSENT:
            return f'Connection(name="{name}", getter=lambda: None, setter=lambda _: {removal(self.attr_path)})'
        setter = assignment(self.attr_path, "value")
        return f'Connection(name="{name}", getter=lambda: {self.value!r}, setter=lambda value: {setter})'


def suggest_refresh(examination: Examination, refresh: Refresh, tensor: str) -> str:
    """The lines that make the environment compute a cache again."""
    path = refresh.attr_path
    code = "\n".join([*examination.imports(path), refresh.line(examination.refresh_name(path))])
    return examination.or_else(code, advice_to_refresh(tensor))


def advice_to_refresh(tensor: str) -> str:
    """What to do about a cache if no line of code is known to work."""
    return f"# add a Connection that makes the environment compute {tensor} again"


def find_refreshes(experiments: Experiments, probes: list[Probe]) -> dict[str, Refresh]:
    """Find the frozen tensors that are caches, and what makes the environment compute each of them again, by name.

    A tensor for which nothing is found is not treated as a cache.
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
    """Tensors that computing observations overwrites, tried twice, if a value is set at a path."""
    refreshed = suspects
    for _ in range(2):
        spoilt = {frozen.name: overwritten(experiments.live(frozen)) for frozen in refreshed}
        with contextlib.suppress(Exception):
            assign(experiments.roots, attr_path, value)
            experiments.stages.observe()
        refreshed = [frozen for frozen in refreshed if _differs(experiments.live(frozen), spoilt[frozen.name])]
        if not refreshed:
            break
    return [frozen.name for frozen in refreshed]


def _differs(tensor: object, spoilt: torch.Tensor | None) -> bool:
    if not isinstance(tensor, torch.Tensor) or spoilt is None:
        return False
    return tensor.shape != spoilt.shape or not torch.equal(tensor, spoilt)
