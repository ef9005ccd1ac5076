"""Probabilities from scores."""

import math

from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.products import transposed
from exploy.codegen.operators.registry import writes
from exploy.codegen.step_writer import Reader, StepWriter
from exploy.codegen.values import Value, View

_KERNELS = {"Softmax": "softmax_row", "LogSoftmax": "log_softmax_row"}


@writes(*_KERNELS)
def write_softmax(step: StepWriter, operation: Operation) -> Value:
    """Exponentials along a dimension, divided by their sum, or the logarithms of that.

    A row with NaN, with inf, or of nothing but -inf is NaN, as in torch.
    """
    value = operation.input(0)
    require_floats(operation, value)
    axis = operation.axis(value.rank, -1)
    order = [*(place for place in range(value.rank) if place != axis), axis]
    is_last = math.prod(value.shape[axis + 1 :]) == 1
    source = step.contiguous(value if is_last else transposed(step, value, order))
    result = step.temporary(source.shape, value.dtype)
    size = value.shape[axis] if value.rank else 1
    function = step.kernel(f"{_KERNELS[operation.op_type]}_{suffix(value)}")
    rows = (value.size // max(1, size),)
    firsts = [View(view.buffer, rows, (size,), view.offset) for view in (source, result)]

    def statement(reader: Reader) -> str:
        x, y = (f"&{reader(view)}" for view in firsts)
        return f"{function}({size}, {x}, {y});"

    step.loop(rows, firsts, statement)
    if is_last:
        return result
    back = [order.index(place) for place in range(value.rank)]
    return transposed(step, result, back)
