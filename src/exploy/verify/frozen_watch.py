"""Watches the tensors that a program or file keeps as constants while the environment moves on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.object_graph import resolve_in
from exploy.live.roots import live_objects


class FrozenItem(Protocol):
    """A tensor that is kept with the value that it had: a program's `FrozenTensor`, or a contract's `Frozen`."""

    @property
    def name(self) -> str:
        """The path that leads to it."""

    def changed_elements(self, now: np.ndarray) -> np.ndarray | None:
        """Flags for the elements that are frozen and have another value now; None if there are none."""


Item = TypeVar("Item", bound=FrozenItem)


@dataclass(frozen=True)
class FrozenChange(Generic[Item]):
    """A frozen tensor that has another value by now, and which of its elements, as flags, have."""

    frozen: Item
    now: np.ndarray
    elements: np.ndarray


class FrozenWatch(Generic[Item]):
    """Tells which frozen tensors are no longer what is kept of them.

    Each is looked up anew by its path, since environments replace tensors and the objects that hold them.

    Args:
        env: The environment.
        actor: The actor, where it is known.
        frozen: The tensors to watch.
    """

    def __init__(self, env: ExportableEnvironment, actor: torch.nn.Module | None, frozen: Sequence[Item]):
        self._env = env
        self._actor = actor if actor is not None else torch.nn.Module()
        self._frozen = frozen

    def changes(self, wanted: Callable[[Item], bool] = lambda frozen: True) -> Iterator[FrozenChange[Item]]:
        """Every wanted tensor that has changed; one that no path leads to any more is left out."""
        roots = live_objects(self._env, self._actor)
        for frozen in self._frozen:
            now = as_array(live_value(frozen, roots)) if wanted(frozen) else None
            elements = None if now is None else frozen.changed_elements(now)
            if now is not None and elements is not None:
                yield FrozenChange(frozen, now, elements)


def live_value(frozen: FrozenItem, roots: dict[str, object]) -> object:
    """The tensor or array that is frozen, as it is now; None where no path leads to it any more."""
    memory: object = getattr(frozen, "live", None)
    return memory if memory is not None else resolve_in(roots, frozen.name)


def as_array(live: object) -> np.ndarray | None:
    """The values of a tensor or array, without a copy where that can be; None of anything else."""
    array = live.detach().cpu().numpy() if isinstance(live, torch.Tensor) else live
    return array if isinstance(array, np.ndarray) else None
