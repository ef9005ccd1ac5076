"""Lists the tensors that a program has stored with their present value, by the way that leads to them."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import fx

from exploy.exporter.capture.aliases import Access, Region, alias_parent, shared_root
from exploy.exporter.capture.location import UNKNOWN
from exploy.exporter.capture.paths import PathIndex
from exploy.exporter.capture.program import FrozenTensor
from exploy.exporter.capture.recording import WHERE, Recording, mutated_arguments

_LITERALS = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default)
_OVERWRITES = (torch.ops.aten.copy_.default, torch.ops.aten.fill_.Scalar, torch.ops.aten.zero_.default)


def frozen_tensors(
    recording: Recording, regions: list[Region], paths: PathIndex, modules: Iterable[torch.nn.Module]
) -> list[FrozenTensor]:
    """Every outside tensor that was read and is neither registered, nor a weight of a known module, nor a literal."""
    weights = {tensor.data_ptr() for module in modules for tensor in module.state_dict(keep_vars=True).values()}
    frozen: dict[str, FrozenTensor] = {}
    for region in regions:
        for access in region.accesses:
            tensor = recording.tensor(access.node)
            if tensor is None or tensor.data_ptr() in weights or _is_literal(access.node):
                continue
            if not _is_registered(region, access) and not _is_overwritten_first(recording, region):
                entry = _entry(access, tensor, paths, len(frozen))
                frozen.setdefault(entry.name, entry)
    return list(frozen.values())


def _is_registered(region: Region, access: Access) -> bool:
    if not region.arguments:
        return False
    registered = np.concatenate([argument.geometry.elements for argument in region.arguments])
    return bool(np.isin(access.geometry.elements, registered).all())


def _is_overwritten_first(recording: Recording, region: Region) -> bool:
    """Whether the first thing that happens to all of this memory is that other values are stored in it."""
    if region.root is None or region.arguments:
        return False
    for node in recording.graph.nodes:
        touching = [source for source in node.all_input_nodes if shared_root(recording, source) is region.root]
        if touching and alias_parent(recording, node) is None:
            return False
        if touching and mutated_arguments(node):
            return node.target in _OVERWRITES and touching == [region.root]
    return False


def _is_literal(node: fx.Node) -> bool:
    return bool(node.users) and all(user.target in _LITERALS for user in node.users)


def _entry(access: Access, tensor: torch.Tensor, paths: PathIndex, count: int) -> FrozenTensor:
    places = (candidate.meta[WHERE] for candidate in (access.node, *access.node.users) if WHERE in candidate.meta)
    name = paths.find(access.geometry) or f"unnamed_{count}"
    return FrozenTensor(name, next(places, UNKNOWN), tensor.detach().cpu().clone())
