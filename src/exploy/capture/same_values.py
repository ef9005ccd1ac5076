"""Tells whether two nodes of a recording are certain to hold the same values."""

from typing import Any

import torch
from torch import fx

from exploy.capture.recording import Recording, mutated_arguments
from exploy.live.geometry import Geometry

_aten = torch.ops.aten
_RESHAPED = (
    _aten.view.default, _aten.reshape.default, _aten.unsqueeze.default, _aten.squeeze.dim, _aten.squeeze.default,
    _aten.expand.default, _aten.clone.default, _aten.to.dtype, _aten.alias.default, _aten.detach.default,
    _aten.flatten.using_ints, _aten._to_copy.default, _aten._reshape_copy.default, _aten.contiguous.default,
)  # fmt: skip
_CONJUNCTIONS = (
    _aten.bitwise_and.Tensor, _aten.logical_and.default, _aten.__and__.Tensor, _aten.mul.Tensor,
)  # fmt: skip


class SameValues:
    """Compares nodes of a recording by how they were computed, and by the writes in between.

    Args:
        recording: The recording, finished or not.
    """

    def __init__(self, recording: Recording):
        self._recording = recording
        self._order = {node: position for position, node in enumerate(recording.graph.nodes)}
        self._writes = [
            (position, place)
            for node, position in self._order.items()
            for target in mutated_arguments(node)
            if (place := recording.geometry(target)) is not None
        ]

    def are_same(self, first: fx.Node, second: fx.Node) -> bool:
        """Whether two nodes held the same values when they were computed; False if that is not certain."""
        if first is second:
            return True
        if first.op == "get_attr" and second.op == "get_attr":
            one, two = self._recording.geometry(first), self._recording.geometry(second)
            return one is not None and two is not None and one.same_place(two)
        is_comparable = first.op == "call_function" and first.target is second.target and self._is_pure(first)
        if not is_comparable or first.kwargs.keys() != second.kwargs.keys():
            return False
        pairs = [
            *zip(first.args, second.args, strict=False),
            *((first.kwargs[k], second.kwargs[k]) for k in first.kwargs),
        ]
        return len(first.args) == len(second.args) and all(
            self._are_same_arguments(one, two, first, second) for one, two in pairs
        )

    def implies(self, mask: fx.Node, other: fx.Node) -> bool:
        """Whether a mask has no true element where another one has none at all."""
        mask = self._unshaped(mask)
        if self.are_same(mask, self._unshaped(other)):
            return True
        if mask.target not in _CONJUNCTIONS:
            return False
        return any(isinstance(item, fx.Node) and self.implies(item, other) for item in mask.args)

    def _unshaped(self, node: fx.Node) -> fx.Node:
        while node.target in _RESHAPED and isinstance(node.args[0], fx.Node):
            if not self._is_unwritten(node.args[0], node):
                break
            node = node.args[0]
        return node

    def _are_same_arguments(self, one: Any, two: Any, first: fx.Node, second: fx.Node) -> bool:
        if isinstance(one, list | tuple) and isinstance(two, list | tuple):
            pairs = zip(one, two, strict=False)
            return len(one) == len(two) and all(self._are_same_arguments(*pair, first, second) for pair in pairs)
        if not (isinstance(one, fx.Node) and isinstance(two, fx.Node)):
            return not isinstance(one, fx.Node) and not isinstance(two, fx.Node) and bool(one == two)
        if one is two or one.op == "get_attr":
            return self.are_same(one, two) and not self._is_written(one, first, second)
        return self._is_unwritten(one, first) and self._is_unwritten(two, second) and self.are_same(one, two)

    def _is_unwritten(self, node: fx.Node, reader: fx.Node) -> bool:
        return not self._is_written(node, node, reader)

    def _is_written(self, node: fx.Node, start: fx.Node, stop: fx.Node) -> bool:
        place = self._recording.geometry(node)
        first, last = sorted((self._order[start], self._order[stop]))
        return place is None or any(first < when < last and _overlap(place, other) for when, other in self._writes)

    def _is_pure(self, node: fx.Node) -> bool:
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            return False
        return not mutated_arguments(node) and torch.Tag.nondeterministic_seeded not in target.tags


def _overlap(one: Geometry, two: Geometry) -> bool:
    return one.start < two.stop and two.start < one.stop
