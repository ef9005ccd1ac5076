"""Operators that make one element of many: sums, extremes, and where they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exploy.codegen.c_types import c_type, literal
from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.registry import writes
from exploy.codegen.step_writer import StepWriter, render
from exploy.codegen.values import Computed, Value, View


@dataclass(frozen=True)
class _Reduction:
    """How elements are put together, one after the other: the next result of the one before, {0}, and an element, {1}.

    Args:
        start: What comes before the first element.
        of_floats: For floats.
        kernel: The kernel for other numbers, without the suffix for their type; also for floats that have no form.
        of_flags: For flags.
    """

    start: float
    of_floats: str = ""
    kernel: str = ""
    of_flags: str = ""


_LONG_ROW = 64  # elements
_REDUCTIONS = {
    "ReduceSum": _Reduction(0, "{0} + {1}", "add"),
    "ReduceProd": _Reduction(1, "{0} * {1}", "multiply"),
    "ReduceMax": _Reduction(-math.inf, "", "maximum", "({0} || {1})"),
    "ReduceMin": _Reduction(math.inf, "", "minimum", "({0} && {1})"),
}


@writes(*_REDUCTIONS)
def write_reduction(step: StepWriter, operation: Operation) -> Value:
    """Sums, products and extremes along some dimensions."""
    return _reduced(step, operation, operation.input(0), _REDUCTIONS[operation.op_type])


@writes("ReduceMean")
def write_mean(step: StepWriter, operation: Operation) -> Value:
    """Means along some dimensions."""
    value = operation.input(0)
    require_floats(operation, value)
    count = math.prod(value.shape[axis] for axis in _axes(operation))
    return step.computed(f"({{0}} / {literal(count, value.dtype)})", value.dtype, _sum(step, operation, value))


@writes("ReduceL1", "ReduceL2", "ReduceSumSquare")
def write_norm(step: StepWriter, operation: Operation) -> Value:
    """Sums of absolute values or of squares along some dimensions, and the roots of these."""
    value = operation.input(0)
    require_floats(operation, value)
    if operation.op_type == "ReduceL1":
        return _sum(step, operation, step.computed(f"fabs{_f(value)}({{0}})", value.dtype, value))
    function = step.kernel(f"square_{suffix(value)}")
    total = _sum(step, operation, step.computed(f"{function}({{0}})", value.dtype, value))
    return (
        total
        if operation.op_type == "ReduceSumSquare"
        else step.computed(f"sqrt{_f(value)}({{0}})", value.dtype, total)
    )


@writes("ReduceLogSum")
def write_log_sum(step: StepWriter, operation: Operation) -> Value:
    """Logarithms of sums along some dimensions."""
    value = operation.input(0)
    require_floats(operation, value)
    return step.computed(f"{step.kernel(f'log_{suffix(value)}')}({{0}})", value.dtype, _sum(step, operation, value))


@writes("ReduceLogSumExp")
def write_log_sum_exp(step: StepWriter, operation: Operation) -> Value:
    """Logarithms of sums of exponentials, computed from the largest element so that none overflows."""
    value = step.view(operation.input(0))
    require_floats(operation, value)
    largest = _reduced(step, operation, value, _REDUCTIONS["ReduceMax"])
    top = step.store(step.computed(f"(isfinite({{0}}) ? {{0}} : {literal(0, value.dtype)})", value.dtype, largest))
    kept = [1 if axis in _axes(operation) else size for axis, size in enumerate(value.shape)]
    exp, log = (step.kernel(f"{name}_{suffix(value)}") for name in ("exp", "log"))
    exponentials = step.computed(f"{exp}({{0}} - {{1}})", value.dtype, value, top.with_ones(tuple(kept)))
    total = _sum(step, operation, exponentials)
    return step.computed(f"({log}({{0}}) + {{1}})", value.dtype, total, top)


@writes("ArgMax", "ArgMin")
def write_place_of_extreme(step: StepWriter, operation: Operation) -> Value:
    """The index of the largest or smallest element along a dimension; of NaN, if there is one."""
    value = step.view(operation.input(0))
    if operation.attribute("select_last_index", 0):
        raise operation.refused("with select_last_index")
    axis = operation.axis(value.rank)
    kind = c_type(value.dtype).name
    largest = operation.op_type == "ArgMax"
    better = f"element {'>' if largest else '<'} best"
    if value.dtype.kind == "f":
        better = f"({better}) || (isnan(element) && (!isnan(best)))"
    result, target = _result(step, value, [axis], np.int64)
    nest = step.nest(value.shape, [axis], [target, *value.views()])
    start = _start(-math.inf if largest else math.inf, value.dtype)
    lines = nest.inner(
        [
            f"const {kind} element = {render(value, nest.read)};",
            f"if ({better}) {{",
            "  best = element;",
            f"  place = {nest.inner_index};",
            "}",
        ]
    )
    lines = [f"{kind} best = {start};", "int32_t place = 0;", *lines, f"{nest.read(target)} = place;"]
    step.emit("\n".join(nest.block(lines)))
    return _shaped(operation, result, [axis])


@writes("TopK")
def write_largest_elements(step: StepWriter, operation: Operation) -> Sequence[Value]:
    """The largest or smallest elements along a dimension, in order, and where they were; NaN counts as largest."""
    value = step.contiguous(operation.input(0))
    count = int(operation.known(1, "numbers of elements").reshape(-1)[0])
    axis = operation.axis(value.rank, -1)
    shape = [count if place == axis else size for place, size in enumerate(value.shape)]
    values, places = step.temporary(shape, value.dtype), step.temporary(shape, np.int64, "places")
    sizes = [math.prod(value.shape[:axis]), value.shape[axis], math.prod(value.shape[axis + 1 :]), count]
    descending = "true" if operation.attribute("largest", 1) else "false"
    pointers = [step.pointer(value), step.pointer(values), step.pointer(places)]
    function = step.kernel(f"first_sorted_{suffix(value)}")
    step.emit(f"{function}({', '.join(map(str, sizes))}, {descending}, {', '.join(pointers)});")
    return values, places


@writes("CumSum", "CumProd")
def write_running_total(step: StepWriter, operation: Operation) -> Value:
    """Sums or products of all elements up to each element of a dimension."""
    value = step.view(operation.input(0))
    axis = int(operation.known(1, "axis").reshape(-1)[0]) % max(value.rank, 1)
    reduction = _REDUCTIONS["ReduceSum" if operation.op_type == "CumSum" else "ReduceProd"]
    result = step.temporary(value.shape, value.dtype)
    source, target = value, result
    if operation.attribute("reverse", 0):
        source, target = _reversed(value, axis), _reversed(result, axis)
    nest = step.nest(value.shape, [axis], [source, target])
    give = f"{nest.read(target)} = total;"
    add = f"total = {_form(step, operation, reduction, value).format('total', nest.read(source))};"
    inside = nest.inner([give, add] if operation.attribute("exclusive", 0) else [add, give])
    start = f"{c_type(value.dtype).name} total = {_start(reduction.start, value.dtype)};"
    step.emit("\n".join(nest.block([start, *inside])))
    return result


def _sum(step: StepWriter, operation: Operation, value: Value) -> Value:
    return _reduced(step, operation, value, _REDUCTIONS["ReduceSum"])


def _reduced(step: StepWriter, operation: Operation, value: Value, reduction: _Reduction) -> Value:
    """A reduction: one result for all elements along the dimensions to reduce, each taken in order."""
    axes = _axes(operation)
    if not isinstance(value, Computed):
        value = step.view(value)
    if any(value.shape[axis] == 0 for axis in axes) and math.isinf(reduction.start):
        raise operation.refused("of no elements")
    if reduction is _REDUCTIONS["ReduceSum"] and _is_of_long_rows(value, axes):
        return _row_sums(step, operation, value, axes)
    result, target = _result(step, value, axes, value.dtype)
    nest = step.nest(value.shape, axes, [target, *value.views()])
    following = _form(step, operation, reduction, value).format("total", render(value, nest.read))
    start = f"{c_type(value.dtype).name} total = {_start(reduction.start, value.dtype)};"
    step.emit("\n".join(nest.block([start, *nest.inner([f"total = {following};"]), f"{nest.read(target)} = total;"])))
    return _shaped(operation, result, axes)


def _is_of_long_rows(value: Value, axes: Sequence[int]) -> bool:
    """Whether so many adjacent floats are added that adding them one after the other would lose digits."""
    is_last = list(axes) == list(range(value.rank - len(axes), value.rank))
    count = math.prod(value.shape[axis] for axis in axes)
    return value.dtype.kind == "f" and is_last and count >= _LONG_ROW and value.size > 0


def _row_sums(step: StepWriter, operation: Operation, value: Value, axes: Sequence[int]) -> Value:
    """Sums of adjacent elements, each in several parts."""
    source = step.contiguous(value)
    result, _ = _result(step, value, axes, value.dtype)
    size = math.prod(value.shape[axis] for axis in axes)
    rows = value.size // size
    function, x, y = step.kernel(f"row_sum_{suffix(value)}"), step.pointer(source), step.pointer(result)
    if rows == 1:
        step.emit(f"{y}[0] = {function}({size}, {x});")
    else:
        step.emit(f"for (int32_t i = 0; i < {rows}; i++) {{\n  {y}[i] = {function}({size}, {x} + (i * {size}));\n}}")
    return _shaped(operation, result, axes)


def _form(step: StepWriter, operation: Operation, reduction: _Reduction, value: Value) -> str:
    """The next result of the one before, {0}, and an element, {1}."""
    if value.dtype == np.bool_:
        if not reduction.of_flags:
            raise operation.refused("of flags")
        return reduction.of_flags
    if value.dtype.kind == "f" and reduction.of_floats:
        return reduction.of_floats
    if not reduction.kernel:
        raise operation.refused("of this type")
    return f"{step.kernel(f'{reduction.kernel}_{suffix(value)}')}({{0}}, {{1}})"


def _start(value: float, dtype: np.dtype) -> str:
    """What comes before the first element, as C; the lowest or highest number of the type for an infinite one."""
    if not math.isinf(value) or dtype.kind == "f":
        return literal(value, dtype)
    if dtype == np.bool_:
        return literal(value > 0, dtype)
    info = np.iinfo(dtype)
    return literal(info.max if value > 0 else info.min, dtype)


def _axes(operation: Operation) -> list[int]:
    """The dimensions to reduce; none where elements stay alone."""
    rank = operation.input(0).rank
    axes = operation.integers(1, "axes")
    if not axes:
        axes = [] if operation.attribute("noop_with_empty_axes", 0) else list(range(rank))
    return sorted(axis % rank for axis in axes)


def _result(step: StepWriter, value: Value, axes: Sequence[int], dtype: np.dtype | type) -> tuple[View, View]:
    """Memory with one element for all along some dimensions, and the same repeated along these."""
    kept = [1 if axis in axes else size for axis, size in enumerate(value.shape)]
    result = step.temporary(kept, dtype)
    return result, result.broadcast(value.shape)


def _shaped(operation: Operation, result: View, axes: Sequence[int]) -> View:
    """A result without the dimensions that were reduced, unless they are kept."""
    if operation.attribute("keepdims", 1):
        return result
    return result.with_ones(tuple(size for axis, size in enumerate(result.shape) if axis not in axes))


def _reversed(view: View, axis: int) -> View:
    """The same elements, from the last to the first along a dimension."""
    strides = [-step if place == axis else step for place, step in enumerate(view.strides)]
    return View(view.buffer, view.shape, strides, view.offset + view.strides[axis] * (view.shape[axis] - 1))


def _f(value: Value) -> str:
    return "f" if value.dtype.itemsize == 4 else ""
