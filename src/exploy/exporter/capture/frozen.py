"""Lists the tensors that a program has stored with their present value, by the way that leads to them."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import fx

from exploy.exporter.capture.aliases import Access, Region, is_overwritten_first
from exploy.exporter.capture.location import UNKNOWN
from exploy.exporter.capture.paths import PathIndex
from exploy.exporter.capture.program import FrozenTensor
from exploy.exporter.capture.recording import WHERE, Recording

_LITERALS = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default)


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
            if not _is_registered(region, access) and not _is_scratch(recording, region):
                entry = _entry(access, tensor, paths, len(frozen))
                frozen.setdefault(entry.name, entry)
    return list(frozen.values())


def _is_registered(region: Region, access: Access) -> bool:
    if not region.arguments:
        return False
    registered = np.concatenate([argument.geometry.elements for argument in region.arguments])
    return bool(np.isin(access.geometry.elements, registered).all())


def _is_scratch(recording: Recording, region: Region) -> bool:
    return (
        region.root is not None
        and not region.arguments
        and is_overwritten_first(recording, region.root, recording.graph.nodes)
    )


def _is_literal(node: fx.Node) -> bool:
    return bool(node.users) and all(user.target in _LITERALS for user in node.users)


def _entry(access: Access, tensor: torch.Tensor, paths: PathIndex, count: int) -> FrozenTensor:
    places = (candidate.meta[WHERE] for candidate in (access.node, *access.node.users) if WHERE in candidate.meta)
    name = paths.find(access.geometry) or f"unnamed_{count}"
    return FrozenTensor(name, next(places, UNKNOWN), tensor.detach().cpu().clone())
