"""Operators that only move elements: most of them are views that cost nothing."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from exploy.codegen.operation import Operation
from exploy.codegen.operators.registry import writes
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Constant, Value, View


@writes("Reshape")
def write_reshape(step: StepWriter, operation: Operation) -> Value:
    """The same elements in another shape."""
    value = operation.input(0)
    wanted = operation.integers(1, "sizes") or []
    keep_zero = operation.attribute("allowzero", 0)
    sizes = [value.shape[axis] if size == 0 and not keep_zero else size for axis, size in enumerate(wanted)]
    if -1 in sizes:
        sizes[sizes.index(-1)] = value.size // max(1, -math.prod(sizes))
    return reshaped(step, value, sizes)


@writes("Flatten")
def write_flatten(step: StepWriter, operation: Operation) -> Value:
    """A matrix of the elements."""
    value = operation.input(0)
    axis = operation.attribute("axis", 1)
    axis = axis + value.rank if axis < 0 else axis
    return reshaped(step, value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))


@writes("Squeeze")
def write_squeeze(step: StepWriter, operation: Operation) -> Value:
    """Without dimensions of size 1."""
    value = operation.input(0)
    axes = operation.integers(1, "axes")
    dropped = {axis % value.rank for axis in axes} if axes is not None else set(range(value.rank))
    kept = [size for axis, size in enumerate(value.shape) if axis not in dropped or (axes is None and size != 1)]
    return value.with_ones(tuple(kept))


@writes("Unsqueeze")
def write_unsqueeze(step: StepWriter, operation: Operation) -> Value:
    """With further dimensions of size 1."""
    value = operation.input(0)
    axes = operation.integers(1, "axes") or []
    rank = value.rank + len(axes)
    added = {axis % rank for axis in axes}
    sizes = iter(value.shape)
    return value.with_ones(tuple(1 if axis in added else next(sizes) for axis in range(rank)))


@writes("Transpose")
def write_transpose(step: StepWriter, operation: Operation) -> Value:
    """With dimensions in another order."""
    value = operation.input(0)
    order = list(operation.attribute("perm", range(value.rank)[::-1]))
    if isinstance(value, Constant):
        return Constant(value.array.transpose(order), value.hint)
    view = step.view(value)
    return View(view.buffer, [view.shape[axis] for axis in order], [view.strides[axis] for axis in order], view.offset)


@writes("Slice")
def write_slice(step: StepWriter, operation: Operation) -> Value:
    """Every n-th element of a range of each dimension."""
    value = operation.input(0)
    starts, stops = operation.integers(1, "starts") or [], operation.integers(2, "ends") or []
    axes = operation.integers(3, "axes") or list(range(len(starts)))
    steps = operation.integers(4, "steps") or [1] * len(starts)
    ranges = [slice(None)] * value.rank
    for axis, start, stop, stride in zip(axes, starts, stops, steps, strict=True):
        size = value.shape[axis % value.rank]
        ranges[axis % value.rank] = _python_slice(start, stop, stride, size)
    return sliced(step, value, ranges)


@writes("Split")
def write_split(step: StepWriter, operation: Operation) -> Sequence[Value]:
    """Parts of one dimension."""
    value = operation.input(0)
    axis = operation.axis(value.rank)
    sizes = operation.integers(1, "sizes")
    if sizes is None:
        count = operation.attribute("num_outputs", len(operation.outputs))
        each = -(-value.shape[axis] // count)
        sizes = [min(each, value.shape[axis] - each * part) for part in range(count)]
    bounds = np.cumsum([0, *sizes]).tolist()
    view = value if isinstance(value, Constant) else step.view(value)
    whole = [slice(None)] * value.rank
    return [
        sliced(step, view, [*whole[:axis], slice(start, stop), *whole[axis + 1 :]])
        for start, stop in itertools.pairwise(bounds)
    ]


@writes("Concat")
def write_concatenation(step: StepWriter, operation: Operation) -> Value:
    """Operands one behind the other."""
    values = [operation.input(index) for index in range(len(operation.inputs))]
    axis = operation.axis(values[0].rank)
    sizes = list(values[0].shape)
    sizes[axis] = sum(value.shape[axis] for value in values)
    result = step.temporary(sizes, values[0].dtype)
    position = 0
    for value in values:
        part = [slice(None)] * result.rank
        part[axis] = slice(position, position + value.shape[axis])
        position += value.shape[axis]
        step.store(value, subview(result, part))
    return result


@writes("Expand")
def write_expansion(step: StepWriter, operation: Operation) -> Value:
    """Elements repeated to a larger shape."""
    value = operation.input(0)
    shape = np.broadcast_shapes(value.shape, tuple(operation.integers(1, "sizes") or []))
    return value.broadcast(shape) if isinstance(value, Constant) else step.view(value).broadcast(shape)


@writes("Tile")
def write_tiles(step: StepWriter, operation: Operation) -> Value:
    """Elements repeated, dimension by dimension."""
    value = operation.input(0)
    counts = operation.integers(1, "repeats") or []
    if isinstance(value, Constant):
        return Constant(np.tile(value.array, counts), value.hint)
    view = step.view(value)
    pairs = list(zip(counts, view.shape, view.strides, strict=True))
    shape = [size for count, size, _ in pairs for size in (count, size)]
    repeated = View(view.buffer, shape, [part for _, _, stride in pairs for part in (0, stride)], view.offset)
    return reshaped(step, repeated, [count * size for count, size, _ in pairs])


@writes("Shape")
def write_shape(step: StepWriter, operation: Operation) -> Value:
    """The sizes of a value, which are known."""
    shape = operation.input(0).shape
    start, end = operation.attribute("start", 0), operation.attribute("end", len(shape))
    return Constant(np.array(shape[start:end], np.int64))


@writes("Size")
def write_size(step: StepWriter, operation: Operation) -> Value:
    """The number of elements, which is known."""
    return Constant(np.array(operation.input(0).size, np.int64))


@writes("Pad")
def write_padding(step: StepWriter, operation: Operation) -> Value:
    """Elements with others around them."""
    value = operation.input(0)
    pads = operation.integers(1, "pads") or []
    axes = operation.integers(3, "axes")
    axes = list(range(value.rank)) if axes is None else [axis % value.rank for axis in axes]
    before, after = dict(zip(axes, pads, strict=False)), dict(zip(axes, pads[len(axes) :], strict=False))
    widths = [(before.get(axis, 0), after.get(axis, 0)) for axis in range(value.rank)]
    mode = str(operation.attribute("mode", "constant"))
    if mode == "constant":
        filling = operation.optional(2) or Constant(np.zeros((), value.dtype))
        return _padded_by_one(step, value, widths, filling)
    if mode not in ("edge", "reflect", "wrap"):
        raise operation.refused(f"with mode {mode!r}")
    for axis, width in enumerate(widths):
        positions = np.pad(np.arange(value.shape[axis]), width, mode=cast(Any, mode))
        if width != (0, 0):
            value = taken(step, value, axis, positions)
    return value


@writes("Trilu")
def write_triangle(step: StepWriter, operation: Operation) -> Value:
    """The upper or lower triangle of matrices, and zeros."""
    value = operation.input(0)
    offset = int(operation.known(1, "diagonals").reshape(-1)[0]) if operation.optional(1) is not None else 0
    ones = np.ones(value.shape[-2:], np.bool_)
    kept = np.triu(ones, offset) if operation.attribute("upper", 1) else np.tril(ones, offset)
    return step.computed("({0} ? {1} : {2})", value.dtype, Constant(kept), value, Constant(np.zeros((), value.dtype)))


@writes("DepthToSpace", "SpaceToDepth")
def write_block_move(step: StepWriter, operation: Operation) -> Value:
    """Channels to blocks of an image, or back."""
    view = step.view(operation.input(0))
    n, c, h, w = view.shape
    size = operation.attribute("blocksize")
    if operation.op_type == "SpaceToDepth":
        split, order = (n, c, h // size, size, w // size, size), (0, 3, 5, 1, 2, 4)
        shape = (n, c * size * size, h // size, w // size)
    else:
        columns_first = str(operation.attribute("mode", "DCR")) == "CRD"
        split = (n, c // size**2, size, size, h, w) if columns_first else (n, size, size, c // size**2, h, w)
        order = (0, 1, 4, 2, 5, 3) if columns_first else (0, 3, 4, 1, 5, 2)
        shape = (n, c // size**2, h * size, w * size)
    parts = step.view(reshaped(step, view, split))
    moved = View(parts.buffer, [split[axis] for axis in order], [parts.strides[axis] for axis in order], parts.offset)
    return reshaped(step, moved, shape)


def reshaped(step: StepWriter, value: Value, shape: Sequence[int]) -> Value:
    """The same elements in another shape: as a view where the strides allow it, else as a copy."""
    if isinstance(value, Constant):
        return Constant(value.array.reshape(tuple(shape)), value.hint)
    if [size for size in value.shape if size != 1] == [size for size in shape if size != 1]:
        return value.with_ones(tuple(shape))
    view = step.view(value)
    strides = _strides_after_reshape(view, shape)
    if strides is not None:
        return View(view.buffer, shape, strides, view.offset)
    view = step.contiguous(view)
    return View(view.buffer, shape, offset=view.offset)


def sliced(step: StepWriter, value: Value, ranges: Sequence[slice]) -> Value:
    """A part of a value."""
    if isinstance(value, Constant):
        return Constant(value.array[tuple(ranges)], value.hint)
    return subview(step.view(value), ranges)


def subview(view: View, ranges: Sequence[slice]) -> View:
    """A part of a view, as a view."""
    shape, strides, offset = [], [], view.offset
    for size, stride, part in zip(view.shape, view.strides, ranges, strict=True):
        start, stop, step = part.indices(size)
        count = len(range(start, stop, step))
        shape.append(count)
        strides.append(stride * step)
        offset += start * stride if count else 0
    return View(view.buffer, shape, strides, offset)


def _strides_after_reshape(view: View, shape: Sequence[int]) -> list[int] | None:
    """The strides of the new shape, if the same memory can be read with it.

    Dimensions of the view that are stepped through as one are taken together; each of these groups must be cut up by
    dimensions of the new shape.
    """
    if view.size == 0:
        return None
    groups: list[tuple[int, int]] = []  # size and step of the last dimension
    for size, step in zip(view.shape, view.strides, strict=True):
        if size == 1:
            continue
        if groups and groups[-1][1] == size * step:
            groups[-1] = (groups[-1][0] * size, step)
        else:
            groups.append((size, step))
    strides: list[int] = []
    left, following = 1, 1
    for size in reversed(shape):
        if left == 1 and size != 1:
            left, following = groups.pop()
        if left % size:
            return None
        strides.append(following)
        left, following = left // size, following * size
    return strides[::-1]


def _python_slice(start: int, stop: int, stride: int, size: int) -> slice:
    """A range as ONNX understands it: backwards, it starts at the first element if its start is before that."""
    last = size - 1 if stride < 0 else size
    start = min(max(start + size if start < 0 else start, 0), last)
    stop = min(max(stop + size if stop < 0 else stop, -1 if stride < 0 else 0), last)
    return slice(start, None if stop < 0 else stop, stride) if start >= 0 else slice(0, 0)


def _padded_by_one(step: StepWriter, value: Value, widths: Sequence[tuple[int, int]], filling: Value) -> View:
    """Elements around which there is one number; negative widths cut."""
    kept = [
        slice(max(0, -before), size - max(0, -after)) for size, (before, after) in zip(value.shape, widths, strict=True)
    ]
    inner = sliced(step, value, kept)
    sizes = [size + max(0, before) + max(0, after) for size, (before, after) in zip(inner.shape, widths, strict=True)]
    result = step.temporary(sizes, value.dtype)
    step.store(step.computed("{0}", value.dtype, filling.with_ones(())).broadcast(tuple(sizes)), result)
    place = [
        slice(max(0, before), max(0, before) + size) for size, (before, _) in zip(inner.shape, widths, strict=True)
    ]
    step.store(inner, subview(result, place))
    return result


def taken(step: StepWriter, value: Value, axis: int, positions: np.ndarray) -> Value:
    """Elements at known positions of one dimension."""
    if isinstance(value, Constant):
        return Constant(value.array.take(positions, axis), value.hint)
    view = step.view(value)
    result = step.temporary([*view.shape[:axis], len(positions), *view.shape[axis + 1 :]], view.dtype)
    whole = [slice(None)] * view.rank
    for index, position in enumerate(positions.tolist()):
        source = subview(view, [*whole[:axis], slice(position, position + 1), *whole[axis + 1 :]])
        target = subview(result, [*whole[:axis], slice(index, index + 1), *whole[axis + 1 :]])
        step.store(source, target)
    return result
