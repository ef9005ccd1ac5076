"""Products of matrices."""

from exploy.codegen.operation import Operation
from exploy.codegen.operators.registry import writes
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Constant, Value


@writes("Gemm")
def write_gemm(step: StepWriter, operation: Operation) -> Value:
    """A matrix times a matrix, plus a bias."""
    a, b = step.contiguous(operation.input(0)), operation.input(1)
    if not isinstance(b, Constant) or operation.attribute("transA", 0):
        raise operation.refused("of this form")
    weights = b.array.T if operation.attribute("transB", 0) else b.array
    table = step.constant(weights, b.hint)
    bias = step.contiguous(operation.input(2))
    result = step.temporary((a.shape[0], weights.shape[1]), a.dtype)
    function = step.kernel("multiply_matrix_f32")
    step.emit(
        f"{function}({a.shape[0]}, {weights.shape[0]}, {weights.shape[1]}, {step.pointer(a)}, {step.pointer(table)}, "
        f"{step.pointer(bias)}, {step.pointer(result)});"
    )
    return result
