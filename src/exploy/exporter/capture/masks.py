"""Rewrites boolean masks in indexing, whose result sizes a file with fixed shapes cannot express."""

import torch
from torch import fx

from exploy.errors import DataDependentError
from exploy.exporter.capture.recording import STAGE, WHERE, Recording, is_mask

aten = torch.ops.aten


def replace_boolean_masks(recording: Recording) -> None:
    """Turn writes through a mask into a choice between old and new values.

    Raises:
        DataDependentError: If as many values are written as the mask has hits.
    """
    for node in list(recording.graph.nodes):
        if node.target in (aten.index_put_.default, aten.index_put.default):
            if any(is_mask(recording, index) for index in node.args[1]):
                _replace_write(recording, node)


def _replace_write(recording: Recording, node: fx.Node) -> None:
    target, indices, values = node.args[:3]
    accumulate = len(node.args) > 3 and bool(node.args[3])
    target_tensor, value_tensor = recording.tensor(target), recording.tensor(values)
    masks = [index for index in indices if index is not None]
    mask_tensor = recording.tensor(masks[0])
    if accumulate or len(masks) != 1 or indices[0] is None:
        raise DataDependentError(_message(node, "combines a boolean mask with other indices"))
    trailing = target_tensor.dim() - mask_tensor.dim()
    count_matters = value_tensor.dim() > trailing and value_tensor.shape[-trailing - 1] != 1
    if count_matters and int(mask_tensor.numel()) != 1:
        raise DataDependentError(_message(node, "writes as many values as the mask has hits"))
    graph = recording.graph
    with graph.inserting_before(node):
        mask = masks[0]
        if mask_tensor.dtype == torch.uint8:
            mask = graph.call_function(aten.to.dtype, (mask, torch.bool))
        if trailing:
            mask = graph.call_function(aten.view.default, (mask, [*mask_tensor.shape, *[1] * trailing]))
        if value_tensor.dim() > trailing:
            values = graph.call_function(aten.view.default, (values, _without_count(value_tensor, trailing)))
        chosen = graph.call_function(aten.where.self, (mask, values, target))
        if node.target is aten.index_put_.default:
            result = graph.call_function(aten.copy_.default, (target, chosen))
        else:
            result = chosen
    produced = node.prev
    while STAGE not in produced.meta:
        produced.meta.update({STAGE: node.meta[STAGE], WHERE: node.meta.get(WHERE, "")})
        produced = produced.prev
    recording.tensors[result] = recording.tensors[node]
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _without_count(values: torch.Tensor, trailing: int) -> list[int]:
    return list(values.shape[values.dim() - trailing :])


def _message(node: fx.Node, what: str) -> str:
    return (
        f"{node.meta.get(WHERE, 'an unknown place')}: a write {what}, which a file with fixed shapes cannot express. "
        "Use torch.where(mask, new, old)."
    )
