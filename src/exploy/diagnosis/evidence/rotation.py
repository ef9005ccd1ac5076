"""Finds tensors that the pipeline moves from place to place, such as the elements of a list that rotates.

A capture shows only the element that is read. In `lag = lag[1:] + [action]`, the other elements are read in later
steps, from the place that they have moved to. So one policy step is run, and each tensor is looked up in the state
before it.
"""

import collections
import dataclasses
from collections.abc import Iterable
from typing import Any

import torch

from exploy.diagnosis.evidence.experiments import Experiments, assign, split_attr_path
from exploy.live.attribute_paths import BOOKKEEPING
from exploy.live.geometry import Geometry, has_memory
from exploy.live.object_graph import can_be_followed, is_a, walk

_MOST_MOVES = 10_000
Place = tuple[int, tuple[int, ...], tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Rotation:
    """Where the values of a tensor come from in later policy steps.

    Attributes:
        attr_paths: The path of the tensor, then the paths from which tensors move to it, one step each.
        is_refilled: Whether the pipeline writes the last of them: then all of them together are a memory.
        shared: Paths of lists in which one tensor has several places, so that its places cannot be registered.
    """

    attr_paths: tuple[str, ...]
    is_refilled: bool
    shared: tuple[str, ...] = ()

    @property
    def container(self) -> str | None:
        """The list, tuple, deque or dictionary that has all these tensors; None if there is none."""
        holders = {split_attr_path(item)[0] for item in self.attr_paths if item.endswith("]")}
        is_one = len(holders) == 1 and all(item.endswith("]") for item in self.attr_paths)
        return holders.pop() if is_one else None


def rotations(experiments: Experiments, attr_paths: Iterable[str]) -> dict[str, Rotation]:
    """Run one policy step in a trial, and follow the tensors that it moves to some paths.

    Tensors that stay where they are are left out.

    Raises:
        Exception: Any error that the environment raises.
    """
    wanted = [item for item in attr_paths if can_be_followed(item) and not item.startswith("unnamed")]
    if not wanted:
        return {}
    with experiments.trial():
        shared = separate(experiments, dict.fromkeys(split_attr_path(item)[0] for item in wanted if item.endswith("]")))
        before = _places(experiments.roots)
        kept = [item for _, item in before.values()]
        experiments.policy_step()
        found = {item: _follow(experiments, item, before, shared) for item in wanted}
        del kept
    return {item: rotation for item, rotation in found.items() if rotation is not None}


def shares_a_place(experiments: Experiments, attr_path: str) -> bool:
    """Whether the tensor at a path has several places in its list, tuple or deque."""
    return attr_path.endswith("]") and _is_shared(experiments.resolve(split_attr_path(attr_path)[0]))


def _is_shared(container: object) -> bool:
    if not is_a(container, list | tuple | collections.deque):
        return False
    items: list[Any] = list(container)  # type: ignore[call-overload]
    are_tensors = len(items) > 1 and all(is_a(item, torch.Tensor) for item in items)
    return are_tensors and len({id(item) for item in items}) < len(items)


def separate(experiments: Experiments, holders: Iterable[str]) -> tuple[str, ...]:
    """Give each place of lists with shared tensors a tensor of its own, and return the paths of these lists."""
    shared = []
    for holder in holders:
        container = experiments.resolve(holder)
        if not _is_shared(container):
            continue
        items = [item.clone() for item in container]
        if isinstance(container, tuple):
            assign(experiments.roots, holder, tuple(items))
        else:
            container.clear()
            container.extend(items)
        shared.append(holder)
    return tuple(shared)


def _places(roots: dict[str, object]) -> dict[Place, tuple[str, torch.Tensor]]:
    found: dict[Place, tuple[str, torch.Tensor]] = {}
    for attr_path, value in walk(roots, skip=BOOKKEEPING):
        if is_a(value, torch.Tensor) and has_memory(value) and value.numel() and can_be_followed(attr_path):
            found.setdefault(_place(value), (attr_path, value))
    return found


def _place(tensor: torch.Tensor) -> Place:
    geometry = Geometry.of(tensor)
    return geometry.address, geometry.shape, geometry.strides


def _follow(
    experiments: Experiments, attr_path: str, before: dict[Place, tuple[str, torch.Tensor]], shared: tuple[str, ...]
) -> Rotation | None:
    chain = [attr_path]
    while len(chain) < _MOST_MOVES:
        now = experiments.resolve(chain[-1])
        if not isinstance(now, torch.Tensor) or not has_memory(now):
            return None
        source, _ = before.get(_place(now), (None, None))
        if source == chain[-1]:  # it stays where it is, so what it is follows from how it is read itself
            return None if len(chain) < 3 else _rotation(chain[:-1], False, shared)
        if source is None or source in chain:
            break
        chain.append(source)
    return _rotation(chain, source is None, shared)


def _rotation(chain: list[str], is_refilled: bool, shared: tuple[str, ...]) -> Rotation | None:
    holders = {split_attr_path(item)[0] for item in chain if item.endswith("]")}
    own = tuple(item for item in shared if item in holders)
    return Rotation(tuple(chain), is_refilled, own) if len(chain) > 1 or own else None


def rotating_groups(attr_paths: Iterable[str], found: dict[str, Rotation]) -> list[Rotation]:
    """Join the rotations of some paths that have tensors in common; a path without one is a group of its own."""
    groups: list[Rotation] = []
    for attr_path in attr_paths:
        group = found.get(attr_path, Rotation((attr_path,), True))
        common = [item for item in groups if set(item.attr_paths) & set(group.attr_paths)]
        for item in (*common, group):
            joined = dict.fromkeys((*group.attr_paths, *item.attr_paths))
            shared = dict.fromkeys((*group.shared, *item.shared))
            group = Rotation(tuple(joined), group.is_refilled and item.is_refilled, tuple(shared))
        groups = [item for item in groups if item not in common] + [group]
    return [dataclasses.replace(item, attr_paths=tuple(sorted(item.attr_paths, key=_order))) for item in groups]


def _order(attr_path: str) -> tuple[str, str]:
    holder, key = split_attr_path(attr_path)
    return holder, f"{key:09}" if isinstance(key, int) else str(key)
