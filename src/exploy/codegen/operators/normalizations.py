"""Elements without their mean, and divided by their deviation."""

import math
from collections.abc import Sequence

import numpy as np

from exploy.codegen.c_types import literal
from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.registry import writes
from exploy.codegen.operators.shapes import reshaped
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Constant, Value, View


@writes("BatchNormalization")
def write_batch_normalization(step: StepWriter, operation: Operation) -> Value:
    """Channels with the mean and the variance that training has found."""
    if operation.attribute("training_mode", 0):
        raise operation.refused("in training")
    x = operation.input(0)
    require_floats(operation, x)
    scale, offset, mean, variance = (_per_channel(operation.input(index), x.rank) for index in range(1, 5))
    epsilon = literal(_epsilon(operation, x.dtype), x.dtype)
    root = "sqrtf" if x.dtype.itemsize == 4 else "sqrt"
    factor: Value
    summand: Value
    if all(isinstance(item, Constant) for item in (scale, offset, mean, variance)):
        factor, summand = (_per_channel(item, x.rank) for item in _folded(operation, x.dtype))
    else:
        factor = step.store(step.computed(f"({{0}} / {root}({{1}} + {epsilon}))", x.dtype, scale, variance))
        summand = step.store(step.computed("({0} - ({1} * {2}))", x.dtype, offset, mean, factor))
    return step.computed("(({0} * {1}) + {2})", x.dtype, x, factor, summand)


@writes("LayerNormalization")
def write_layer_normalization(step: StepWriter, operation: Operation) -> Sequence[Value]:
    """The last dimensions with mean 0 and variance 1, times a scale, plus a bias."""
    x = operation.input(0)
    require_floats(operation, x)
    axis = operation.axis(x.rank, -1)
    size = math.prod(x.shape[axis:])
    normal, means, scales = _normalized(step, operation, x, size)
    statistics = [*x.shape[:axis], *[1] * (x.rank - axis)]
    y = step.computed("({0} * {1})", x.dtype, reshaped(step, normal, x.shape), operation.input(1))
    bias = operation.optional(2)
    if bias is not None:
        y = step.computed("({0} + {1})", x.dtype, y, bias)
    return y, reshaped(step, means, statistics), reshaped(step, scales, statistics)


@writes("InstanceNormalization")
def write_instance_normalization(step: StepWriter, operation: Operation) -> Value:
    """Each channel with mean 0 and variance 1, times a scale, plus a bias."""
    x = operation.input(0)
    require_floats(operation, x)
    normal, _, _ = _normalized(step, operation, x, math.prod(x.shape[2:]))
    scale, bias = (_per_channel(operation.input(index), x.rank) for index in (1, 2))
    return step.computed("(({0} * {1}) + {2})", x.dtype, reshaped(step, normal, x.shape), scale, bias)


@writes("GroupNormalization")
def write_group_normalization(step: StepWriter, operation: Operation) -> Value:
    """Groups of channels with mean 0 and variance 1, times a scale, plus a bias: each for a channel or for a group."""
    x = operation.input(0)
    require_floats(operation, x)
    groups, channels = operation.attribute("num_groups"), x.shape[1]
    normal, _, _ = _normalized(step, operation, x, math.prod(x.shape[1:]) // groups)
    count = operation.input(1).size
    if count not in (groups, channels):
        raise operation.refused(f"with {count} scales")
    scale, bias = (_per_channel(operation.input(index), 3) for index in (1, 2))
    parts = reshaped(step, normal, (x.shape[0], count, math.prod(x.shape[1:]) // count))
    return reshaped(step, step.computed("(({0} * {1}) + {2})", x.dtype, parts, scale, bias), x.shape)


@writes("RMSNormalization")
def write_root_mean_square_normalization(step: StepWriter, operation: Operation) -> Value:
    """The last dimensions divided by the root of the mean of their squares, times a scale."""
    x = operation.input(0)
    require_floats(operation, x)
    source = step.contiguous(x)
    size = math.prod(x.shape[operation.axis(x.rank, -1) :])
    result = step.temporary(x.shape, x.dtype)
    epsilon = literal(_epsilon(operation, x.dtype), x.dtype)
    step.emit(
        f"{step.kernel(f'scale_rows_{suffix(x)}')}({x.size // max(1, size)}, {size}, {epsilon}, "
        f"{step.pointer(source)}, {step.pointer(result)});"
    )
    return step.computed("({0} * {1})", x.dtype, result, operation.input(1))


@writes("LpNormalization")
def write_norm_normalization(step: StepWriter, operation: Operation) -> Value:
    """Elements of a dimension divided by their norm; zeros where that is zero."""
    x = operation.input(0)
    require_floats(operation, x)
    source, axis = step.contiguous(x), operation.axis(x.rank, -1)
    result = step.temporary(x.shape, x.dtype)
    sizes = [math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])]
    of_squares = "true" if operation.attribute("p", 2) == 2 else "false"
    given = [*(str(size) for size in sizes), of_squares, step.pointer(source), step.pointer(result)]
    step.emit(f"{step.kernel(f'scale_by_norms_{suffix(x)}')}({', '.join(given)});")
    return result


def _normalized(step: StepWriter, operation: Operation, x: Value, size: int) -> tuple[View, View, View]:
    """Rows of a size with mean 0 and variance 1; their means, and what they were multiplied by."""
    source, rows = step.contiguous(x), x.size // max(1, size)
    result = step.temporary(x.shape, x.dtype)
    means, scales = step.temporary((rows,), x.dtype, "means"), step.temporary((rows,), x.dtype, "scales")
    epsilon = literal(_epsilon(operation, x.dtype), x.dtype)
    pointers = ", ".join(step.pointer(view) for view in (source, result, means, scales))
    step.emit(f"{step.kernel(f'normalize_rows_{suffix(x)}')}({rows}, {size}, {epsilon}, {pointers});")
    return result, means, scales


def _per_channel(value: Value, rank: int) -> Value:
    """A value for each channel, as it is broadcast."""
    return value.with_ones((1, value.size, *[1] * (rank - 2)))


def _folded(operation: Operation, dtype: np.dtype) -> tuple[Constant, Constant]:
    """The factor and the summand of each channel, computed in double precision."""
    scale, offset, mean, variance = (operation.known(index, "values").astype(np.float64) for index in range(1, 5))
    factor = scale / np.sqrt(variance + float(_epsilon(operation, np.dtype(np.float64))))
    return Constant(factor.astype(dtype), "factors"), Constant((offset - mean * factor).astype(dtype), "summands")


def _epsilon(operation: Operation, dtype: np.dtype) -> np.generic:
    epsilon: np.generic = dtype.type(np.float32(operation.attribute("epsilon", 1e-5)))
    return epsilon
