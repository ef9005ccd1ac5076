"""Operators that write elements at indices which are computed."""

from collections.abc import Sequence

import numpy as np

from exploy.codegen.c_types import c_type
from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import suffix
from exploy.codegen.operators.positions import Index, element_at
from exploy.codegen.operators.registry import writes
from exploy.codegen.step_writer import Reader, StepWriter
from exploy.codegen.values import Value, View

_REDUCTIONS = {"add": "{0} + {1}", "mul": "{0} * {1}"}
_INTEGER_REDUCTIONS = {"add": "add", "mul": "multiply"}
_EXTREMES = {"max": "maximum", "min": "minimum"}


@writes("ScatterElements")
def write_scatter_elements(step: StepWriter, operation: Operation) -> Value:
    """The data, with each update at the index of one dimension."""
    result = _copy(step, operation.input(0))
    indices, updates = step.view(operation.input(1)), step.view(operation.input(2))
    axis = operation.axis(result.rank)
    strides = [0 if place == axis else stride for place, stride in enumerate(result.strides)]
    target = View(result.buffer, indices.shape, strides)
    part = View(updates.buffer, indices.shape, updates.strides, updates.offset)
    _write_at(step, operation, target, [Index(indices, result.shape[axis], result.strides[axis])], part)
    return result


@writes("ScatterND")
def write_scatter_nd(step: StepWriter, operation: Operation) -> Value:
    """The data, with each slice of the updates at a tuple of indices."""
    result = _copy(step, operation.input(0))
    indices, updates = step.view(operation.input(1)), step.view(operation.input(2))
    count = indices.shape[-1]
    rest = result.rank - count
    target = View(result.buffer, updates.shape, [*[0] * (indices.rank - 1), *result.strides[count:]])
    tuples = [
        Index(
            View(
                indices.buffer,
                updates.shape,
                [*indices.strides[:-1], *[0] * rest],
                indices.offset + part * indices.strides[-1],
            ),
            result.shape[part],
            result.strides[part],
        )
        for part in range(count)
    ]
    _write_at(step, operation, target, tuples, updates)
    return result


def _copy(step: StepWriter, value: Value) -> View:
    return step.store(value, step.temporary(value.shape, value.dtype))


def _write_at(step: StepWriter, operation: Operation, target: View, indices: Sequence[Index], updates: View) -> None:
    """Write a loop that writes updates at indices."""
    form = _form(step, operation, target)
    kind = c_type(target.dtype).name

    def statement(reader: Reader) -> str:
        address = f"&{element_at(step, reader, target, indices)}"
        return f"{kind} *const element = {address};\n*element = {form.format('*element', reader(updates))};"

    step.loop(updates.shape, [target, updates, *(index.view for index in indices)], statement)


def _form(step: StepWriter, operation: Operation, target: View) -> str:
    """How an element and its update are combined."""
    reduction = str(operation.attribute("reduction", "none"))
    if reduction == "none":
        return "{1}"
    if target.dtype.kind == "f" and reduction in _REDUCTIONS:
        return _REDUCTIONS[reduction]
    names = _EXTREMES | (_INTEGER_REDUCTIONS if target.dtype.kind in "iu" else {})
    if reduction not in names or target.dtype == np.bool_:
        raise operation.refused(f"with reduction {reduction!r}")
    return f"{step.kernel(f'{names[reduction]}_{suffix(target)}')}({{0}}, {{1}})"
