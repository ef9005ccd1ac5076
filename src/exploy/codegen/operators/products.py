"""Products of matrices, as operators of several kinds compute them: kernels, and weights as these read them."""

from collections.abc import Sequence

import numpy as np

from exploy.codegen.operators.elementwise import suffix
from exploy.codegen.step_writer import Reader, StepWriter
from exploy.codegen.values import Constant, Shape, Value, View

_VECTOR_PANEL = 64  # outputs; as many sums as 16 registers of AVX hold, without those for factors
_MATRIX_PANEL = 16
_FEWEST_ROWS = 4  # that the kernel for matrices computes at once; for fewer, that for vectors is faster


def vector_panels(matrix: np.ndarray) -> np.ndarray:
    """A matrix as the kernel for vectors reads it: panels of 64 columns, the last one of 32 or 64."""
    columns = matrix.shape[1]
    parts = [np.zeros(0, matrix.dtype)]
    for start in range(0, columns, _VECTOR_PANEL):
        part = matrix[:, start : start + _VECTOR_PANEL]
        parts.append(_filled_up(part, _panel_width(part.shape[1])).reshape(-1))
    return np.concatenate(parts)


def matrix_panels(matrix: np.ndarray) -> np.ndarray:
    """A matrix as the kernel for several rows reads it: panels of 16 columns."""
    inner, columns = matrix.shape
    panels = -(-columns // _MATRIX_PANEL)
    filled = _filled_up(matrix, panels * _MATRIX_PANEL)
    return filled.reshape(inner, panels, _MATRIX_PANEL).swapaxes(0, 1).reshape(-1)


def product(step: StepWriter, a: Value, b: Value, start: Value | None = None) -> View:
    """The products of stacks of matrices, which are broadcast against each other.

    Args:
        step: Where the statements go.
        a: Matrices in the last two dimensions.
        b: Matrices of the same type.
        start: What sums begin with, for a single matrix: a bias of each column, or all elements of the result.
    """
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    if 0 in shape:
        return step.temporary(shape, a.dtype)
    if a.dtype.kind != "f":
        return _product_of_integers(step, a, b)
    if b.size == b.shape[-1] * b.shape[-2]:  # one matrix for all rows
        rows = a.size // max(1, a.shape[-1]) if a.shape[-1] else int(np.prod(shape[:-1]))
        result = step.temporary(shape, a.dtype)
        source = step.contiguous(a)
        multiply(step, rows, source, packed(step, b.with_ones(b.shape[-2:]), rows), start, result)
        return result
    return _stacked_product(step, a, b)


def packed(step: StepWriter, matrix: Value, rows: int) -> View:
    """A matrix in panels, for a product with some rows: packed already if it is known, else by statements."""
    inner, columns = matrix.shape
    if isinstance(matrix, Constant):
        return step.constant(_panels(matrix.array, rows), matrix.hint)
    source = step.view(matrix)
    target = step.temporary((_packed_size(inner, columns, rows),), matrix.dtype, "panels")
    step.emit(_packing(step, step.pointer(source), source, rows, step.pointer(target)))
    return target


def multiply(step: StepWriter, rows: int, x: View, weights: View, start: Value | None, result: View) -> None:
    """Write the product of contiguous rows with packed weights into a contiguous result."""
    columns = result.shape[-1]
    inner = x.size // rows if rows else 0
    first, stride = _start(step, start, columns, result.dtype)
    step.emit(
        _call(
            step,
            (rows, inner, columns),
            step.pointer(x),
            step.pointer(weights),
            (step.pointer(first), stride),
            step.pointer(result),
            suffix(result),
        )
    )


def transposed(step: StepWriter, value: Value, order: Sequence[int]) -> Value:
    """With dimensions in another order."""
    if isinstance(value, Constant):
        return Constant(value.array.transpose(order), value.hint)
    view = step.view(value)
    return View(view.buffer, [view.shape[axis] for axis in order], [view.strides[axis] for axis in order], view.offset)


def zeros(step: StepWriter, count: int, dtype: np.dtype) -> View:
    """What sums without a bias begin with."""
    return step.constant(np.zeros(count, dtype), "zeros")


def _stacked_product(step: StepWriter, a: Value, b: Value) -> View:
    """Products of matrices in loops over the dimensions in front."""
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    left = step.contiguous(a).broadcast((*stack, rows, inner))
    result = step.temporary((*stack, rows, columns), a.dtype)
    first = zeros(step, columns, a.dtype)
    sizes = (rows, inner, columns)
    lefts, results = _firsts(left, stack), _firsts(result, stack)
    if isinstance(b, Constant):
        matrices = b.array.reshape(-1, inner, columns)
        table = step.constant(np.stack([_panels(matrix, rows) for matrix in matrices]), b.hint)
        right = View(table.buffer, (*b.shape[:-2], table.shape[-1])).broadcast((*stack, table.shape[-1]))
        rights = View(right.buffer, stack, right.strides[:-1], right.offset)
        buffer = None
    else:
        right = step.view(b).broadcast((*stack, inner, columns))
        rights = _firsts(right, stack)
        buffer = step.temporary((_packed_size(inner, columns, rows),), b.dtype, "panels")

    def statement(reader: Reader) -> str:
        weights = f"&{reader(rights)}"
        lines = []
        if buffer is not None:
            lines.append(_packing(step, weights, right, rows, step.pointer(buffer)))
            weights = step.pointer(buffer)
        start = (step.pointer(first), 0)
        lines.append(_call(step, sizes, f"&{reader(lefts)}", weights, start, f"&{reader(results)}", suffix(a)))
        return "\n".join(lines)

    step.loop(stack, [lefts, rights, results], statement)
    return result


def _product_of_integers(step: StepWriter, a: Value, b: Value) -> View:
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    left = step.contiguous(a).broadcast((*stack, rows, inner))
    right = step.view(b).broadcast((*stack, inner, columns))
    result = step.temporary((*stack, rows, columns), a.dtype)
    firsts = [_firsts(view, stack) for view in (left, right, result)]
    function = step.kernel(f"multiply_integers_{suffix(a)}")

    def statement(reader: Reader) -> str:
        x, matrix, y = (f"&{reader(view)}" for view in firsts)
        return f"{function}({rows}, {inner}, {columns}, {x}, {matrix}, {right.strides[-2]}, {right.strides[-1]}, {y});"

    step.loop(stack, firsts, statement)
    return result


def _firsts(view: View, stack: Shape) -> View:
    """The first elements of the matrices of a stack."""
    return View(view.buffer, stack, view.strides[: len(stack)], view.offset)


def _start(step: StepWriter, start: Value | None, columns: int, dtype: np.dtype) -> tuple[View, int]:
    """What sums begin with, and how far apart its rows are."""
    if start is None:
        return zeros(step, columns, dtype), 0
    found = step.contiguous(start)
    return found, columns if found.size != columns else 0


def _call(
    step: StepWriter,
    sizes: tuple[int, int, int],
    x: str,
    weights: str,
    start: tuple[str, int],
    result: str,
    kind: str,
) -> str:
    rows, inner, columns = sizes
    if rows < _FEWEST_ROWS:
        function = step.kernel(f"multiply_vector_{kind}")
        calls = []
        for row in range(rows):
            places = (x, row * inner), (weights, 0), (start[0], row * start[1]), (result, row * columns)
            calls.append(f"{function}({inner}, {columns}, {', '.join(_further(*place) for place in places)});")
        return "\n".join(calls)
    function = step.kernel(f"multiply_matrix_{kind}")
    strides = f"{inner * _MATRIX_PANEL}, {_MATRIX_PANEL}"
    return f"{function}({rows}, {inner}, {columns}, {x}, {weights}, {strides}, {start[0]}, {start[1]}, {result});"


def _further(pointer: str, count: int) -> str:
    return f"{pointer} + {count}" if count else pointer


def _packing(step: StepWriter, source: str, matrix: View, rows: int, target: str) -> str:
    inner, columns = matrix.shape[-2:]
    width = _VECTOR_PANEL if rows < _FEWEST_ROWS else _MATRIX_PANEL
    last = _panel_width(columns % width) if rows < _FEWEST_ROWS else width
    function = step.kernel(f"pack_columns_{suffix(matrix)}")
    strides = f"{matrix.strides[-2]}, {matrix.strides[-1]}"
    return f"{function}({inner}, {columns}, {width}, {last}, {source}, {strides}, {target});"


def _packed_size(inner: int, columns: int, rows: int) -> int:
    width = _VECTOR_PANEL if rows < _FEWEST_ROWS else _MATRIX_PANEL
    return inner * -(-columns // width) * width


def _panels(matrix: np.ndarray, rows: int) -> np.ndarray:
    return vector_panels(matrix) if rows < _FEWEST_ROWS else matrix_panels(matrix)


def _panel_width(columns: int) -> int:
    return _VECTOR_PANEL // 2 if columns <= _VECTOR_PANEL // 2 else _VECTOR_PANEL


def _filled_up(matrix: np.ndarray, columns: int) -> np.ndarray:
    return np.pad(matrix, ((0, 0), (0, columns - matrix.shape[1])))
