"""Operators that make one element of many: sums, extremes, and where they are."""

import math
from collections.abc import Sequence

import numpy as np

from exploy.codegen.c_types import literal
from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.registry import writes
from exploy.codegen.operators.shapes import reshaped
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Value, View

_KERNELS = {
    "ReduceSum": "sum",
    "ReduceProd": "product",
    "ReduceMax": "largest",
    "ReduceMin": "smallest",
    "ReduceL1": "sum_of_absolutes",
    "ReduceSumSquare": "sum_of_squares",
}


@writes(*_KERNELS)
def write_reduction(step: StepWriter, operation: Operation) -> Value:
    """Sums, products and extremes along some dimensions."""
    value, axes = _operand(operation)
    if not axes:
        return _of_single_elements(step, operation, value)
    return _reduced(step, operation, value, axes, _KERNELS[operation.op_type])


@writes("ReduceMean")
def write_mean(step: StepWriter, operation: Operation) -> Value:
    """Means along some dimensions."""
    value, axes = _operand(operation)
    require_floats(operation, value)
    count = math.prod(value.shape[axis] for axis in axes)
    total = _reduced(step, operation, value, axes, "sum")
    return step.computed(f"({{0}} / {literal(count, value.dtype)})", value.dtype, total)


@writes("ReduceL2")
def write_norm(step: StepWriter, operation: Operation) -> Value:
    """Euclidean norms along some dimensions."""
    value, axes = _operand(operation)
    require_floats(operation, value)
    total = _reduced(step, operation, value, axes, "sum_of_squares")
    return step.computed(f"sqrt{'f' if value.dtype.itemsize == 4 else ''}({{0}})", value.dtype, total)


@writes("ReduceLogSum")
def write_log_sum(step: StepWriter, operation: Operation) -> Value:
    """Logarithms of sums along some dimensions."""
    value, axes = _operand(operation)
    require_floats(operation, value)
    total = _reduced(step, operation, value, axes, "sum")
    return step.computed(f"{step.kernel(f'log_{suffix(value)}')}({{0}})", value.dtype, total)


@writes("ReduceLogSumExp")
def write_log_sum_exp(step: StepWriter, operation: Operation) -> Value:
    """Logarithms of sums of exponentials, computed from the largest element so that none overflows."""
    value, axes = _operand(operation)
    require_floats(operation, value)
    stored = step.view(value)
    kept = [1 if axis in axes else size for axis, size in enumerate(value.shape)]
    largest = reshaped(step, _reduced(step, operation, stored, axes, "largest"), kept)
    finite = step.computed(f"(isfinite({{0}}) ? {{1}} : {literal(0, value.dtype)})", value.dtype, largest, largest)
    top = step.store(finite)
    exponentials = step.computed(
        f"{step.kernel(f'exp_{suffix(value)}')}({{0}})",
        value.dtype,
        step.computed("({0} - {1})", value.dtype, stored, top),
    )
    total = _reduced(step, operation, exponentials, axes, "sum")
    logarithm = step.computed(f"{step.kernel(f'log_{suffix(value)}')}({{0}})", value.dtype, total)
    return step.computed("({0} + {1})", value.dtype, logarithm, top.with_ones(logarithm.shape))


@writes("ArgMax", "ArgMin")
def write_place_of_extreme(step: StepWriter, operation: Operation) -> Value:
    """The index of the largest or smallest element along a dimension; of NaN, if there is one."""
    value = step.contiguous(operation.input(0))
    if operation.attribute("select_last_index", 0):
        raise operation.refused("with select_last_index")
    axis = operation.axis(value.rank)
    name = "place_of_largest" if operation.op_type == "ArgMax" else "place_of_smallest"
    kept = [1 if place == axis else size for place, size in enumerate(value.shape)]
    result = step.temporary(kept, np.int64)
    _call(step, f"{name}_{suffix(value)}", value, [axis], [step.pointer(result)])
    return result if operation.attribute("keepdims", 1) else result.with_ones(_without(value.shape, [axis]))


@writes("TopK")
def write_largest_elements(step: StepWriter, operation: Operation) -> Sequence[Value]:
    """The largest or smallest elements along a dimension, in order, and where they were; NaN counts as largest."""
    value = step.contiguous(operation.input(0))
    count = int(operation.known(1, "numbers of elements").reshape(-1)[0])
    axis = operation.axis(value.rank, -1)
    shape = [count if place == axis else size for place, size in enumerate(value.shape)]
    values, places = step.temporary(shape, value.dtype), step.temporary(shape, np.int64, "places")
    name = "first_of_descending" if operation.attribute("largest", 1) else "first_of_ascending"
    pointers = [str(count), step.pointer(values), step.pointer(places)]
    _call(step, f"{name}_{suffix(value)}", value, [axis], pointers)
    return values, places


@writes("CumSum", "CumProd")
def write_running_total(step: StepWriter, operation: Operation) -> Value:
    """Sums or products of all elements up to each element of a dimension."""
    value = step.contiguous(operation.input(0))
    axis = int(operation.known(1, "axis").reshape(-1)[0]) % max(value.rank, 1)
    result = step.temporary(value.shape, value.dtype)
    name = "running_sum" if operation.op_type == "CumSum" else "running_product"
    flags = [
        "true" if operation.attribute("exclusive", 0) else "false",
        "true" if operation.attribute("reverse", 0) else "false",
    ]
    _call(step, f"{name}_{suffix(value)}", value, [axis], [*flags, step.pointer(result)])
    return result


def _operand(operation: Operation) -> tuple[Value, list[int]]:
    """The operand and the dimensions to reduce: none, if there are none and nothing is to be done then."""
    value = operation.input(0)
    axes = operation.integers(1, "axes")
    if not axes:
        axes = [] if operation.attribute("noop_with_empty_axes", 0) else list(range(value.rank))
    return value, sorted(axis % value.rank for axis in axes)


def _of_single_elements(step: StepWriter, operation: Operation, value: Value) -> Value:
    """The reduction where each element is alone."""
    if operation.op_type == "ReduceL1":
        raise operation.refused("without axes")
    if operation.op_type == "ReduceSumSquare":
        return step.computed(f"{step.kernel(f'square_{suffix(value)}')}({{0}})", value.dtype, value)
    return value


def _reduced(step: StepWriter, operation: Operation, value: Value, axes: Sequence[int], name: str) -> Value:
    """A reduction by a kernel; the reduced dimensions come one after the other."""
    if value.dtype == np.bool_ and name not in ("largest", "smallest"):
        raise operation.refused("of flags")
    kept = [1 if axis in axes else size for axis, size in enumerate(value.shape)]
    if list(axes) != list(range(axes[0], axes[-1] + 1)) if axes else False:
        value = _axes_last(step, value, axes)
        axes = range(value.rank - len(axes), value.rank)
    source = step.contiguous(value)
    result = step.temporary(kept, value.dtype)
    _call(step, f"{name}_{suffix(value)}", source, axes, [step.pointer(result)])
    return result if operation.attribute("keepdims", 1) else result.with_ones(_without(result.shape, _ones_of(operation)))


def _ones_of(operation: Operation) -> list[int]:
    return _operand(operation)[1]


def _axes_last(step: StepWriter, value: Value, axes: Sequence[int]) -> View:
    view = step.view(value)
    order = [*(axis for axis in range(view.rank) if axis not in axes), *axes]
    return View(view.buffer, [view.shape[axis] for axis in order], [view.strides[axis] for axis in order], view.offset)


def _call(step: StepWriter, kernel: str, value: View, axes: Sequence[int], more: Sequence[str]) -> None:
    """Call a kernel that goes along adjacent dimensions: how often, along how many elements, and how far apart."""
    first, last = (min(axes), max(axes)) if axes else (value.rank, value.rank - 1)
    outer = math.prod(value.shape[:first])
    size = math.prod(value.shape[first : last + 1])
    inner = math.prod(value.shape[last + 1 :])
    given = [str(outer), str(size), str(inner), step.pointer(value), *more]
    step.emit(f"{step.kernel(kernel)}({', '.join(given)});")


def _without(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


