"""Rewrites indexing with boolean masks, whose result sizes a file with fixed shapes cannot express.

A mask that depends on no input is replaced by the indices of its true elements. A write through any other mask is
replaced by `torch.where`. A read through any other mask already raised an error while recording.
"""

from typing import Any

import torch
from torch import fx

from exploy.capture.aliases import new_constant
from exploy.capture.recording import CONSTANT_MASKS, INDEXING, STAGE, WHERE, Recording, is_mask
from exploy.errors import DataDependentError

aten = torch.ops.aten


def replace_masked_writes(recording: Recording) -> None:
    """Replace writes through masks that depend on inputs by `where`. Call this before `tie_aliases`.

    Raises:
        DataDependentError: If a write combines a mask with other indices, or its number of values depends on the mask.
    """
    for node in list(recording.graph.nodes):
        if node.target in INDEXING and _has_variable_mask(recording, node):
            _replace_write(recording, node)


def replace_constant_masks(recording: Recording) -> None:
    """Replace masks that depend on no input by the indices of their true elements. Call this after `tie_aliases`."""
    for node in recording.graph.nodes:
        if node.meta.get(CONSTANT_MASKS):
            _replace_constant_masks(recording, node)


def _has_variable_mask(recording: Recording, node: fx.Node) -> bool:
    constant = node.meta.get(CONSTANT_MASKS, {})
    indices = enumerate(node.args[1])  # type: ignore[arg-type]
    return any(is_mask(recording, index) and position not in constant for position, index in indices)


def _replace_constant_masks(recording: Recording, node: fx.Node) -> None:
    hits: dict[int, list[torch.Tensor]] = node.meta[CONSTANT_MASKS]
    indices: list[Any] = []
    for position, index in enumerate(node.args[1]):  # type: ignore[arg-type]
        indices.extend([new_constant(recording, hit) for hit in hits[position]] if position in hits else [index])
    node.args = (node.args[0], indices, *node.args[2:])


def _replace_write(recording: Recording, node: fx.Node) -> None:
    target, indices, values = node.args[:3]
    assert isinstance(target, fx.Node) and isinstance(values, fx.Node) and isinstance(indices, list | tuple)
    mask = indices[0]
    if len(indices) != 1 or not isinstance(mask, fx.Node) or (len(node.args) > 3 and node.args[3]):
        raise DataDependentError(_message(node, "combines a boolean mask with other indices"))
    mask_tensor, value_tensor = _tensor(recording, mask), _tensor(recording, values)
    trailing = _tensor(recording, target).dim() - mask_tensor.dim()
    if value_tensor.dim() > trailing and value_tensor.shape[-trailing - 1] != 1:
        raise DataDependentError(_message(node, "stores one value per true element of the mask"))
    graph = recording.graph
    with graph.inserting_before(node):
        chosen = _emit_choice(graph, mask, mask_tensor, values, value_tensor, target, trailing)
        in_place = node.target is aten.index_put_.default
        result = graph.call_function(aten.copy_.default, (target, chosen)) if in_place else chosen
    _label(result, node)
    recording.tensors[result] = recording.tensors[node]
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _emit_choice(
    graph: fx.Graph,
    mask: fx.Node,
    mask_tensor: torch.Tensor,
    values: fx.Node,
    value_tensor: torch.Tensor,
    target: fx.Node,
    trailing: int,
) -> fx.Node:
    if mask_tensor.dtype == torch.uint8:
        mask = graph.call_function(aten.to.dtype, (mask, torch.bool))
    if trailing:
        mask = graph.call_function(aten.view.default, (mask, [*mask_tensor.shape, *[1] * trailing]))
    if value_tensor.dim() > trailing:
        kept = list(value_tensor.shape[value_tensor.dim() - trailing :])
        values = graph.call_function(aten.view.default, (values, kept))
    return graph.call_function(aten.where.self, (mask, values, target))


def _label(last: fx.Node, origin: fx.Node) -> None:
    """Give the nodes up to `last` the stage and line of the node that they replace."""
    node = last
    while STAGE not in node.meta:
        node.meta.update({STAGE: origin.meta[STAGE], WHERE: origin.meta.get(WHERE, "")})
        node = node.prev


def _tensor(recording: Recording, node: fx.Node) -> torch.Tensor:
    tensor = recording.tensor(node)
    assert tensor is not None
    return tensor


def _message(node: fx.Node, what: str) -> str:
    return (
        f"{node.meta.get(WHERE, 'unknown location')}: a write {what}, which a file with fixed shapes cannot express. "
        "Use torch.where(mask, new, old)."
    )
