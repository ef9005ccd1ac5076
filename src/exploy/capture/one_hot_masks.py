"""Follows `x[torch.nn.functional.one_hot(index, n) > 0.5]`: a mask that selects one element in each row.

How many elements such a mask selects does not depend on values, so the result is a tensor like any other.
"""

from typing import Any

import torch
from torch import fx

from exploy.capture.recording import Recording, mutated_arguments

_aten = torch.ops.aten
_COMPARED = {_aten.gt.Scalar: (0, 0.5), _aten.ge.Scalar: (0.5, 1), _aten.ne.Scalar: (0,), _aten.eq.Scalar: (1,)}
_CONVERTED = (_aten._to_copy.default, _aten.to.dtype)


def one_hot_index(recording: Recording, name: str, args: Any) -> torch.Tensor | None:
    """The positions that the mask of an indexing selects, one for each row; None if it is no such mask."""
    if name != "__getitem__" or not isinstance(args[0], torch.Tensor):
        return None
    mask, *others = args[1] if isinstance(args[1], tuple) else (args[1],)
    is_mask = isinstance(mask, torch.Tensor) and mask.dtype is torch.bool and recording.is_traced(mask)
    if not is_mask or any(item != slice(None) and item is not ... for item in others):
        return None
    node = recording.node_of(mask)
    encoded = _encoded(node)
    is_fitting = args[0].shape[: mask.dim()] == mask.shape
    if encoded is None or not is_fitting or _is_written(recording, [encoded.args[0], encoded, node], encoded):
        return None
    index = encoded.args[0]
    return recording.tensor(index) if isinstance(index, fx.Node) else None


def at_one_hot(source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor at the positions, in the order of the rows."""
    axis = index.dim()
    place = index.reshape(*index.shape, *[1] * (source.dim() - axis))
    found = torch.take_along_dim(source, place, axis)
    return found.squeeze(axis).flatten(0, axis - 1) if axis else found


def _encoded(node: fx.Node) -> fx.Node | None:
    """The one-hot numbers that a mask is made of; None if it is made in another way."""
    is_compared = node.target in _COMPARED and node.args[1] in _COMPARED[node.target]
    if not is_compared and node.target not in _CONVERTED:
        return None
    source = node.args[0]
    return source if isinstance(source, fx.Node) and source.target is _aten.one_hot.default else None


def _is_written(recording: Recording, nodes: list[Any], after: fx.Node) -> bool:
    """Whether one of some tensors was written to after a node."""
    places = [recording.geometry(node) for node in nodes]
    node = after.next
    while node.op != "root":
        written = [recording.geometry(target) for target in mutated_arguments(node)]
        if any(one is not None and two is not None and one.overlaps(two) for one in written for two in places):
            return True
        node = node.next
    return False
