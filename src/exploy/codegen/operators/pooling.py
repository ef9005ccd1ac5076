"""The largest or the mean of windows of images."""

import math

import numpy as np

from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.registry import writes
from exploy.codegen.operators.windows import Windows
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Value, View


@writes("MaxPool")
def write_largest(step: StepWriter, operation: Operation) -> Value:
    """The largest element of each window; NaN if there is one."""
    if len([name for name in operation.outputs if name]) > 1:
        raise operation.refused("with indices")
    x = operation.input(0)
    windows = Windows.of(operation, x.shape[2:], operation.attribute("kernel_shape"))
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    image = windows.image_with_pads(step, x, x.dtype.type(lowest))
    return _pooled(step, "largest_of_windows", image, windows)


@writes("AveragePool")
def write_means(step: StepWriter, operation: Operation) -> Value:
    """The mean of each window, of what is in the image or also of pads."""
    x = operation.input(0)
    require_floats(operation, x)
    windows = Windows.of(operation, x.shape[2:], operation.attribute("kernel_shape"))
    image = windows.image_with_pads(step, x, x.dtype.type(0))
    with_pads = operation.attribute("count_include_pad", 0)
    pads = windows.pads if with_pads else ((0, 0),) * len(windows.pads)
    counts = windows.elements_in([before for before, _ in pads], [after for _, after in pads])
    table = step.constant(counts.astype(x.dtype), "counts")
    return _pooled(step, "mean_of_windows", image, windows, table)


@writes("GlobalMaxPool", "GlobalAveragePool")
def write_of_all(step: StepWriter, operation: Operation) -> Value:
    """The largest or the mean of all elements of each channel."""
    x = operation.input(0)
    require_floats(operation, x)
    source = step.contiguous(x)
    result = step.temporary((*x.shape[:2], *[1] * (x.rank - 2)), x.dtype)
    name = "largest_of_rows" if operation.op_type == "GlobalMaxPool" else "mean_of_rows"
    sizes = f"{result.size}, {math.prod(x.shape[2:])}"
    step.emit(f"{step.kernel(f'{name}_{suffix(x)}')}({sizes}, {step.pointer(source)}, {step.pointer(result)});")
    return result


def _pooled(step: StepWriter, name: str, image: View, windows: Windows, *tables: View) -> View:
    """Write a call of a kernel for windows of all channels."""
    channels = math.prod(image.shape[:2])
    result = step.temporary((*image.shape[:2], *windows.counts), image.dtype)
    starts, taps = step.constant(windows.starts(), "windows"), step.constant(windows.taps(), "taps")
    sizes = f"{channels}, {math.prod(windows.padded)}, {windows.count}, {taps.size}"
    pointers = ", ".join(step.pointer(view) for view in (image, starts, taps, *tables, result))
    step.emit(f"{step.kernel(f'{name}_{suffix(image)}')}({sizes}, {pointers});")
    return result
