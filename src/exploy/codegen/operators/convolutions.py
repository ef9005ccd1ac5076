"""Sums of windows of images with weights."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.products import matrix_panels
from exploy.codegen.operators.registry import writes
from exploy.codegen.operators.shapes import subview
from exploy.codegen.operators.windows import Windows
from exploy.codegen.step_writer import Reader, StepWriter
from exploy.codegen.values import Constant, Value, View, row_major

_FEWEST_FOR_PANELS = 4  # channels of a group; fewer would leave most of a panel empty
_LEAST_LINE = 64  # windows that the kernel computes at once


@writes("Conv")
def write_convolution(step: StepWriter, operation: Operation) -> Value:
    """A convolution in any number of dimensions, with groups, strides, dilations and pads."""
    x, weights = operation.input(0), operation.known(1, "weights")
    require_floats(operation, x)
    windows = Windows.of(operation, x.shape[2:], weights.shape[2:])
    return _convolved(step, operation, x, weights, windows)


@writes("ConvTranspose")
def write_transposed_convolution(step: StepWriter, operation: Operation) -> Value:
    """The same from results to images: a convolution of an image that has zeros between its elements."""
    x, weights = operation.input(0), operation.known(1, "weights")
    require_floats(operation, x)
    if operation.attribute("output_shape") is not None or str(operation.attribute("auto_pad", "NOTSET")) != "NOTSET":
        raise operation.refused("whose pads follow from its output")
    rank, groups = x.rank - 2, operation.attribute("group", 1)
    more = operation.attribute("output_padding", [0] * rank)
    spread = Windows.of(operation, x.shape[2:], weights.shape[2:])
    sides = [(size - 1) * dilation for size, dilation in zip(spread.kernel, spread.dilations, strict=True)]
    pads = tuple(
        (side - before, side - after + extra)
        for side, (before, after), extra in zip(sides, spread.pads, more, strict=True)
    )
    if any(part < 0 for both in pads for part in both):
        raise operation.refused("with pads beyond its windows")
    image = tuple((size - 1) * stride + 1 for size, stride in zip(x.shape[2:], spread.strides, strict=True))
    counts = tuple(size + before + after - side for size, (before, after), side in zip(image, pads, sides, strict=True))
    windows = replace(spread, image=image, strides=(1,) * rank, pads=pads, counts=counts)
    between = _with_zeros_between(step, x, spread.strides, image)
    parts = np.split(np.flip(weights, tuple(range(2, weights.ndim))), groups)
    turned = np.concatenate([part.swapaxes(0, 1) for part in parts])
    return _convolved(step, operation, between, turned, windows)


def _with_zeros_between(step: StepWriter, x: Value, strides: tuple[int, ...], image: tuple[int, ...]) -> Value:
    if set(strides) == {1}:
        return x
    result = step.temporary((*x.shape[:2], *image), x.dtype, "spread")
    step.store(Constant(np.zeros(result.shape, x.dtype)), result)
    places = [slice(None), slice(None), *(slice(0, None, stride) for stride in strides)]
    step.store(x, subview(result, places))
    return result


def _convolved(step: StepWriter, operation: Operation, x: Value, weights: np.ndarray, windows: Windows) -> View:
    groups, channels = operation.attribute("group", 1), weights.shape[0]
    image = windows.image_with_pads(step, x, x.dtype.type(0))
    bias = step.contiguous(operation.optional(2) or Constant(np.zeros(channels, x.dtype), "zeros"))
    form = _by_panels if channels // groups >= _FEWEST_FOR_PANELS else _by_lines
    parts = Constant(np.stack(np.split(weights, groups)), _hint(operation))
    return form(step, image, parts, bias, windows)


def _hint(operation: Operation) -> str:
    weights = operation.input(1)
    return weights.hint if isinstance(weights, Constant) else "weights"


def _by_panels(step: StepWriter, image: View, weights: Constant, bias: View, windows: Windows) -> View:
    """Write a convolution whose innermost loop goes over channels: for each group."""
    groups, channels, inputs = weights.shape[:3]
    result = step.temporary((image.shape[0], groups * channels, *windows.counts), image.dtype)
    taps = _taps(step, windows, inputs)
    starts = step.constant(windows.starts(), "windows")
    panels = np.stack([matrix_panels(part.reshape(channels, -1).T) for part in weights.array])
    table = step.constant(panels, weights.hint)
    stack = (image.shape[0], groups)
    plane = math.prod(windows.padded)
    views = [
        View(image.buffer, stack, (image.shape[1] * plane, inputs * plane), image.offset),
        View(table.buffer, stack, (0, panels.shape[1])),
        View(bias.buffer, stack, (0, channels), bias.offset),
        View(result.buffer, stack, (groups * channels * windows.count, channels * windows.count)),
    ]
    function = step.kernel(f"convolve_group_{suffix(result)}")

    def statement(reader: Reader) -> str:
        x, own, first, y = (f"&{reader(view)}" for view in views)
        tables = f"{x}, {step.pointer(starts)}, {step.pointer(taps)}, {own}, {first}, {y}"
        return f"{function}({windows.count}, {taps.size}, {channels}, {tables});"

    step.loop(stack, views, statement)
    return result


def _by_lines(step: StepWriter, image: View, weights: Constant, bias: View, windows: Windows) -> View:
    """Write a convolution whose innermost loop goes over a line of windows: for each channel."""
    taps = _taps(step, windows, weights.shape[2])
    starts, width = windows.starts(), windows.counts[-1]
    one_line = int(starts[-1]) + 1
    if set(windows.strides) == {1} and one_line >= _LEAST_LINE:
        sums = _channel_by_channel(step, image, weights, bias, one_line, f"convolve_line_{suffix(image)}", [taps])
        # a view without the windows that go across edges
        strides = (*sums.strides[:2], *row_major(windows.padded))
        return View(sums.buffer, (*sums.shape[:2], *windows.counts), strides)
    lines = step.constant(starts[::width], "lines")
    kernel = f"convolve_lines_{suffix(image)}"
    sizes = (lines.size, width, windows.strides[-1])
    sums = _channel_by_channel(step, image, weights, bias, windows.count, kernel, [lines, taps], sizes)
    return View(sums.buffer, (*sums.shape[:2], *windows.counts))


def _channel_by_channel(
    step: StepWriter,
    image: View,
    weights: Constant,
    bias: View,
    count: int,
    kernel: str,
    tables: Sequence[View],
    sizes: Sequence[int] = (),
) -> View:
    """Write calls of a kernel for each channel, which computes `count` sums.

    Args:
        step: Where the statements go.
        image: The padded images.
        weights: The weights, by groups.
        bias: The biases.
        count: How many sums a channel has.
        kernel: The kernel.
        tables: Where windows and their elements are.
        sizes: The first arguments of the kernel; by default, the number of sums.
    """
    groups, channels, inputs = weights.shape[:3]
    taps = math.prod(weights.shape[2:])
    plane = math.prod(image.shape[2:])
    table = step.constant(weights.array, weights.hint)
    result = step.temporary((image.shape[0], groups * channels, count), image.dtype)
    stack = (image.shape[0], groups, channels)
    views = [
        View(image.buffer, stack, (image.shape[1] * plane, inputs * plane, 0), image.offset),
        View(table.buffer, stack, (0, channels * taps, taps)),
        View(bias.buffer, stack, (0, channels, 1), bias.offset),
        View(result.buffer, stack, (groups * channels * count, channels * count, count)),
    ]
    function = step.kernel(kernel)
    numbers = ", ".join(str(size) for size in (*(sizes or (count,)), taps))

    def statement(reader: Reader) -> str:
        x, own, first, y = (reader(view) for view in views)
        pointers = ", ".join(step.pointer(item) for item in tables)
        return f"{function}({numbers}, &{x}, {pointers}, &{own}, {first}, &{y});"

    step.loop(stack, views, statement)
    return result


def _taps(step: StepWriter, windows: Windows, inputs: int) -> View:
    """Where the elements of a window are, of all channels of a group."""
    planes = np.arange(inputs, dtype=np.int32) * np.int32(math.prod(windows.padded))
    return step.constant(np.add.outer(planes, windows.taps()).reshape(-1).astype(np.int32), "taps")
