"""Lists the tensors that a program stores with their current value, by attribute path."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import fx

from exploy.capture.aliases import Access, Region, is_overwritten_first
from exploy.capture.file_dtypes import numpy_has
from exploy.capture.program import FrozenTensor
from exploy.capture.recording import Recording, viewed_argument
from exploy.environment.components import describe
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import CaptureError
from exploy.live.attribute_paths import NamedMemory, PathIndex
from exploy.live.geometry import Geometry

_LITERALS = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default)


@dataclass
class _Entry:
    """The frozen part of one named tensor, collected from all accesses to it."""

    where: str
    named: NamedMemory | None
    tensor: torch.Tensor
    is_weight: bool
    elements: list[np.ndarray] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    is_written: bool = False
    is_read_by_python: bool = False


def frozen_tensors(
    recording: Recording, regions: list[Region], attr_paths: PathIndex, modules: Iterable[torch.nn.Module]
) -> list[FrozenTensor]:
    """Every outside tensor that was read and is neither registered nor a literal. Weights of modules are marked.

    A tensor that Python has read, for a branch or a number, counts as well: its value is in the graph.
    """
    weights = {tensor.data_ptr() for module in modules for tensor in tensors_of(module).values()}
    entries: dict[str, _Entry] = {}
    for region in regions:
        if _is_scratch(recording, region):
            continue
        for access in region.accesses:
            tensor = recording.tensor(access.node)
            named = attr_paths.find(access.geometry)
            if tensor is None or (named is None and _is_literal(access.node)):
                continue
            is_weight = tensor.data_ptr() in weights
            elements = None if is_weight and not region.arguments else _unregistered(region, access)
            if elements is not None and not elements.size:
                continue
            name = named.attr_path if named else f"unnamed_{len(entries)}"
            entry = entries.setdefault(name, _Entry(access.where, named, tensor, is_weight))
            if elements is not None:
                entry.elements.append(elements)
            entry.buffers.append(_constant(region, access))
            entry.is_written |= region.written
    registered = [argument.geometry for region in regions for argument in region.arguments]
    for tensor, where in recording.python_reads:
        place = Geometry.of(tensor)
        named = attr_paths.find(place)
        if named is None or any(place.overlaps(other) for other in registered):
            continue
        is_weight = tensor.data_ptr() in weights
        entry = entries.setdefault(named.attr_path, _Entry(where, named, tensor, is_weight))
        entry.elements.append(place.elements)
        entry.is_read_by_python = True
    return [_frozen(name, entry) for name, entry in entries.items()]


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers of a module that are not empty, by name."""
    state = module.state_dict(keep_vars=True)
    return {name: value for name, value in state.items() if isinstance(value, torch.Tensor) and value.numel()}


def _frozen(name: str, entry: _Entry) -> FrozenTensor:
    source = entry.named.value if entry.named else entry.tensor
    if isinstance(source, torch.Tensor) and not numpy_has(source.dtype):
        raise CaptureError(
            f"{entry.where}: {name} has {describe(source)}, a dtype that numpy and onnxruntime do not support. "
            "Convert the module or tensor before the export, for example with .float() or .half()."
        )
    array = to_numpy(source) if isinstance(source, torch.Tensor) else source.copy()
    elements = entry.named.positions_of(np.concatenate(entry.elements)) if entry.named and entry.elements else None
    value = array.reshape(-1) if elements is None else array.reshape(-1)[elements]
    return FrozenTensor(
        name=name,
        where=entry.where,
        shape=array.shape,
        elements=elements,
        value=value,
        buffers=frozenset(entry.buffers),
        is_written=entry.is_written,
        is_weight=entry.is_weight,
        is_read_by_python=entry.is_read_by_python,
        live=None if entry.named else entry.tensor.detach(),
    )


def _unregistered(region: Region, access: Access) -> np.ndarray:
    """Addresses of the elements of an access that belong to no port."""
    elements = access.geometry.elements
    if not region.arguments:
        return elements
    registered = np.concatenate([argument.geometry.elements for argument in region.arguments])
    return np.setdiff1d(elements, registered)


def _constant(region: Region, access: Access) -> str:
    """The name of the graph constant that the access reads."""
    node = region.root.args[0] if region.root is not None else access.node
    while isinstance(node, fx.Node) and node.op == "call_function":
        node = viewed_argument(node) or node.args[0]
    assert isinstance(node, fx.Node)
    return str(node.target)


def _is_scratch(recording: Recording, region: Region) -> bool:
    return (
        region.root is not None
        and not region.arguments
        and is_overwritten_first(recording, region.root, recording.graph.nodes)
    )


def _is_literal(node: fx.Node) -> bool:
    return bool(node.users) and all(user.target in _LITERALS for user in node.users)
