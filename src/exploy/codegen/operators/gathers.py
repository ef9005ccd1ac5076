"""Operators that read elements at indices which are computed, or at indices that are known."""

from collections.abc import Sequence

import numpy as np

from exploy.codegen.operation import Operation
from exploy.codegen.operators.positions import Index, element_at
from exploy.codegen.operators.registry import writes
from exploy.codegen.operators.shapes import reshaped, sliced, taken
from exploy.codegen.step_writer import Reader, StepWriter
from exploy.codegen.values import Constant, Value, View


@writes("Gather")
def write_gather(step: StepWriter, operation: Operation) -> Value:
    """Slices of one dimension, by their indices."""
    value, indices = operation.input(0), operation.input(1)
    axis = operation.axis(value.rank)
    shape = (*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :])
    if isinstance(indices, Constant):
        return reshaped(step, _gather_known(step, operation, value, indices.array, axis), shape)
    data, positions = step.view(value), step.view(indices)
    result = step.temporary(shape, value.dtype)
    lead, trail = value.rank - axis - 1, indices.rank
    index_view = View(positions.buffer, shape, [0] * axis + list(positions.strides) + [0] * lead, positions.offset)
    around = [*data.strides[:axis], *[0] * trail, *data.strides[axis + 1 :]]
    source = View(data.buffer, shape, around, data.offset)
    _read_at(step, result, source, [Index(index_view, value.shape[axis], data.strides[axis])])
    return result


@writes("GatherElements")
def write_gather_elements(step: StepWriter, operation: Operation) -> Value:
    """For each element of the indices, the element of the data at that index of one dimension."""
    data, indices = step.view(operation.input(0)), step.view(operation.input(1))
    axis = operation.axis(data.rank)
    result = step.temporary(indices.shape, data.dtype)
    strides = [0 if place == axis else stride for place, stride in enumerate(data.strides)]
    source = View(data.buffer, indices.shape, strides, data.offset)
    _read_at(step, result, source, [Index(indices, data.shape[axis], data.strides[axis])])
    return result


@writes("GatherND")
def write_gather_nd(step: StepWriter, operation: Operation) -> Value:
    """Slices of several dimensions, by tuples of indices."""
    value, indices = operation.input(0), operation.input(1)
    batch = operation.attribute("batch_dims", 0)
    data, positions = step.view(value), step.view(indices)
    count = indices.shape[-1]
    rest = value.rank - batch - count
    shape = (*indices.shape[:-1], *value.shape[batch + count :])
    result = step.temporary(shape, value.dtype)
    source = View(
        data.buffer,
        shape,
        [*data.strides[:batch], *[0] * (indices.rank - 1 - batch), *data.strides[batch + count :]],
        data.offset,
    )
    tuples = [
        Index(
            View(
                positions.buffer,
                shape,
                [*positions.strides[:-1], *[0] * rest],
                positions.offset + part * positions.strides[-1],
            ),
            data.shape[batch + part],
            data.strides[batch + part],
        )
        for part in range(count)
    ]
    _read_at(step, result, source, tuples)
    return result


@writes("OneHot")
def write_one_hot(step: StepWriter, operation: Operation) -> Value:
    """A flag at the index along a new dimension; none for an index that is outside of it."""
    indices, ends = operation.input(0), step.contiguous(operation.input(2))
    depth = int(operation.known(1, "depth").reshape(-1)[0])
    axis = operation.attribute("axis", -1) % (indices.rank + 1)
    column = np.arange(depth, dtype=indices.dtype if indices.dtype.kind in "iu" else np.float32)
    shape = [1] * (indices.rank + 1)
    shape[axis] = depth
    where = Constant(column.reshape(shape), "positions")
    asked = indices.with_ones((*indices.shape[:axis], 1, *indices.shape[axis:]))
    if indices.dtype.kind == "i":
        function = step.kernel(f"wrapped_index_{'i64' if indices.dtype.itemsize == 8 else 'i32'}")
        asked = step.computed(f"{function}({{0}}, {depth})", indices.dtype, asked)
    off, on = View(ends.buffer, (), (), ends.offset), View(ends.buffer, (), (), ends.offset + 1)
    return step.computed("(({0} == {1}) ? {2} : {3})", ends.dtype, asked, where, on, off)


def _gather_known(step: StepWriter, operation: Operation, value: Value, indices: np.ndarray, axis: int) -> Value:
    """Slices at known indices: a view where they are evenly spaced, else a copy."""
    size = value.shape[axis]
    positions = np.where(indices < 0, indices + size, indices).reshape(-1).astype(np.int64)
    if ((positions < 0) | (positions >= size)).any():
        raise operation.refused(f"whose indices {indices.tolist()} are outside of its {size} elements")
    ranges = [slice(None)] * value.rank
    steps = set(np.diff(positions).tolist())
    if len(positions) == 1:
        ranges[axis] = slice(int(positions[0]), int(positions[0]) + 1)
    elif len(steps) == 1 and 0 not in steps:
        start, stop, stride = int(positions[0]), int(positions[-1]), steps.pop()
        stop += 1 if stride > 0 else -1
        ranges[axis] = slice(start, stop if stop >= 0 else None, stride)
    else:
        return taken(step, value, axis, positions)
    return sliced(step, value, ranges)


def _read_at(step: StepWriter, result: View, source: View, indices: Sequence[Index]) -> None:
    """Write a loop that reads a source at indices."""

    def statement(reader: Reader) -> str:
        return f"{reader(result)} = {element_at(step, reader, source, indices)};"

    step.loop(result.shape, [result, source, *(index.view for index in indices)], statement)
