"""Watches tensors that a program or file stores as constants while the environment is stepped."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.tensor_copies import as_plain
from exploy.live.object_graph import resolve_in
from exploy.live.roots import live_objects


class FrozenItem(Protocol):
    """A tensor with its value at the export: a `FrozenTensor` of a program or a `Frozen` of a contract."""

    @property
    def name(self) -> str:
        """The attribute path of the tensor."""

    def changed_elements(self, now: np.ndarray) -> np.ndarray | None:
        """Flags for the frozen elements whose value has changed; None if no element has changed."""


Item = TypeVar("Item", bound=FrozenItem)


@dataclass(frozen=True)
class FrozenChange(Generic[Item]):
    """A frozen tensor whose value has changed; `elements` are flags for the changed elements."""

    frozen: Item
    now: np.ndarray
    elements: np.ndarray


class FrozenWatch(Generic[Item]):
    """Finds frozen tensors that differ from their stored value.

    Tensors are looked up by path every time, because environments replace tensors and the objects that hold them.

    Args:
        env: The environment.
        actor: The actor, if known.
        frozen: The tensors to watch.
    """

    def __init__(self, env: ExportableEnvironment, actor: torch.nn.Module | None, frozen: Sequence[Item]):
        self._env = env
        self._actor = actor if actor is not None else torch.nn.Module()
        self._frozen = frozen

    def changes(self, wanted: Callable[[Item], bool] = lambda frozen: True) -> Iterator[FrozenChange[Item]]:
        """Every wanted tensor that has changed. Tensors whose path no longer exists are skipped."""
        roots = live_objects(self._env, self._actor)
        for frozen in self._frozen:
            now = as_array(live_value(frozen, roots)) if wanted(frozen) else None
            elements = None if now is None else frozen.changed_elements(now)
            if now is not None and elements is not None:
                yield FrozenChange(frozen, now, elements)


def live_value(frozen: FrozenItem, roots: dict[str, object]) -> object:
    """The current tensor or array of a frozen item; None if its path no longer exists."""
    memory: object = getattr(frozen, "live", None)
    return memory if memory is not None else resolve_in(roots, frozen.name)


def as_array(live: object) -> np.ndarray | None:
    """A tensor or array as a numpy array, without a copy if possible; None for any other object."""
    array = as_plain(live).detach().cpu().numpy() if isinstance(live, torch.Tensor) else live
    return array if isinstance(array, np.ndarray) else None
