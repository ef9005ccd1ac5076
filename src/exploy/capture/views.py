"""Expresses a tensor as a view of another tensor, with graph nodes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from exploy.live.geometry import Geometry

aten = torch.ops.aten


@dataclass(frozen=True)
class _Axis:
    """One dimension of a view, or several dimensions that are contiguous and act as one."""

    size: int
    stride: int
    dims: tuple[int, ...]


class InexpressibleView(Exception):
    """A tensor cannot be expressed as slices and reshapes of another tensor."""


def flat_extent_needed(view: Geometry, start: int) -> int:
    """The number of elements that a flat buffer at `start` needs to contain the view."""
    offset = (view.start - start) // view.itemsize
    axes = _merged_axes(view)
    if not axes:
        return offset + 1
    return offset + axes[0].size * axes[0].stride


def emit_view(graph: fx.Graph, base: fx.Node, base_geometry: Geometry, view: Geometry) -> fx.Node:
    """Emit nodes that cut `view` out of the dense tensor `base` as an alias, without a copy.

    Only slices, reshapes, selects and permutations are used. Writes through them can be expressed in ONNX; writes
    through `as_strided` cannot.

    Raises:
        InexpressibleView: If the dtypes differ, or the strides of the view are not nested.
    """
    if view.same_place(base_geometry):
        return base
    if view.dtype != base_geometry.dtype or (view.start - base_geometry.start) % view.itemsize:
        raise InexpressibleView(f"{view.dtype} memory is read from within {base_geometry.dtype} memory")
    flat = _emit_flat(graph, base, base_geometry)
    offset = (view.start - base_geometry.start) // view.itemsize
    return _emit_cut(graph, flat, base_geometry.numel, offset, view)


def _emit_flat(graph: fx.Graph, base: fx.Node, geometry: Geometry) -> fx.Node:
    if len(geometry.shape) == 1:
        return base
    order = sorted(range(len(geometry.shape)), key=lambda dim: (-geometry.strides[dim], dim))
    movable = [dim for dim in order if geometry.shape[dim] > 1]
    if movable != sorted(movable):
        base = _call(graph, aten.permute.default, base, order)
    return _call(graph, aten.view.default, base, [-1])


def _emit_cut(graph: fx.Graph, flat: fx.Node, length: int, offset: int, view: Geometry) -> fx.Node:
    axes = _merged_axes(view)
    node = flat
    lead: list[int] = []
    for position, axis in enumerate(axes):
        if position == len(axes) - 1:
            node = _slice(
                graph, node, len(lead), offset, offset + (axis.size - 1) * axis.stride + 1, length, axis.stride
            )
            return _emit_shape(graph, node, axes, view)
        inner = 1 + sum((rest.size - 1) * rest.stride for rest in axes[position + 1 :])
        start = max(0, min(offset, length - axis.size * axis.stride))
        if start + axis.size * axis.stride > length or offset - start + inner > axis.stride:
            raise InexpressibleView(f"shape {view.shape} with strides {view.strides}")
        node = _slice(graph, node, len(lead), start, start + axis.size * axis.stride, length)
        lead.append(axis.size)
        node = _call(graph, aten.view.default, node, [*lead, axis.stride])
        offset, length = offset - start, axis.stride
    return _emit_shape(graph, _call(graph, aten.select.int, node, 0, offset), axes, view)


def _emit_shape(graph: fx.Graph, node: fx.Node, axes: list[_Axis], view: Geometry) -> fx.Node:
    """Split merged axes, reorder dimensions, add dimensions of size 1, expand dimensions of stride 0."""
    kept = [dim for axis in axes for dim in axis.dims]
    ones = [dim for dim in range(len(view.shape)) if dim not in kept]
    order = [*kept, *ones]
    sizes = [view.shape[dim] for dim in kept] + [1] * len(ones)
    if sizes != [axis.size for axis in axes]:
        node = _call(graph, aten.view.default, node, sizes)
    if order != sorted(order):
        node = _call(graph, aten.permute.default, node, [order.index(dim) for dim in range(len(order))])
    if any(view.shape[dim] != 1 for dim in ones):
        node = _call(graph, aten.expand.default, node, list(view.shape))
    return node


def _merged_axes(view: Geometry) -> list[_Axis]:
    """Dimensions with more than one element, largest stride first, contiguous neighbors merged."""
    dims = [dim for dim in range(len(view.shape)) if view.shape[dim] > 1 and view.strides[dim] != 0]
    axes: list[_Axis] = []
    for dim in sorted(dims, key=lambda dim: -view.strides[dim]):
        size, stride = view.shape[dim], view.strides[dim]
        if axes and axes[-1].stride == size * stride:
            axes[-1] = _Axis(axes[-1].size * size, stride, (*axes[-1].dims, dim))
        else:
            axes.append(_Axis(size, stride, (dim,)))
    return axes


def _slice(graph: fx.Graph, node: fx.Node, dim: int, start: int, stop: int, length: int, step: int = 1) -> fx.Node:
    if start == 0 and stop == length and step == 1:
        return node
    return _call(graph, aten.slice.Tensor, node, dim, start, stop, step)


def _call(graph: fx.Graph, target: Any, *args: Any) -> fx.Node:
    return graph.call_function(target, args)
