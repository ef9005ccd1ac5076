"""Products of matrices and vectors."""

import numpy as np

from exploy.codegen.c_types import literal
from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats
from exploy.codegen.operators.products import product, transposed
from exploy.codegen.operators.registry import writes
from exploy.codegen.operators.shapes import reshaped
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Value


@writes("MatMul")
def write_matmul(step: StepWriter, operation: Operation) -> Value:
    """Products of matrices, stacks of matrices and vectors, broadcast as numpy does."""
    a, b = operation.input(0), operation.input(1)
    if a.dtype == np.bool_ or a.rank == 0 or b.rank == 0:
        raise operation.refused("of this form")
    left = a if a.rank > 1 else reshaped(step, a, (1, a.size))
    right = b if b.rank > 1 else reshaped(step, b, (b.size, 1))
    result = product(step, left, right)
    shape = list(result.shape)
    if b.rank == 1:
        shape.pop(-1)
    if a.rank == 1:
        shape.pop(-1 if b.rank == 1 else -2)
    return reshaped(step, result, shape)


@writes("Gemm")
def write_gemm(step: StepWriter, operation: Operation) -> Value:
    """A matrix times a matrix, each perhaps transposed, plus a bias, each perhaps times a factor."""
    a, b, bias = operation.input(0), operation.input(1), operation.optional(2)
    require_floats(operation, a)
    a = transposed(step, a, (1, 0)) if operation.attribute("transA", 0) else a
    b = transposed(step, b, (1, 0)) if operation.attribute("transB", 0) else b
    shape = (a.shape[0], b.shape[1])
    alpha, beta = operation.attribute("alpha", 1.0), operation.attribute("beta", 1.0)
    if bias is not None and beta != 1:
        bias = step.computed(f"({literal(a.dtype.type(beta), a.dtype)} * {{0}})", a.dtype, bias) if beta else None
    if alpha == 1:
        return product(step, a, b, None if bias is None else _of_columns(bias, shape))
    result = step.computed(f"({literal(a.dtype.type(alpha), a.dtype)} * {{0}})", a.dtype, product(step, a, b))
    return result if bias is None else step.computed("({0} + {1})", a.dtype, result, bias)


def _of_columns(bias: Value, shape: tuple[int, int]) -> Value:
    """A bias for each column, or one for each element if the rows differ."""
    if bias.size in (1, shape[1]) and (bias.rank < 2 or bias.shape[0] == 1):
        return bias.with_ones((bias.size,)).broadcast((shape[1],))
    return bias.broadcast(shape)
