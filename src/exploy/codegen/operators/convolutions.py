"""Sums of windows of images with weights."""

import math
from dataclasses import replace

import numpy as np

from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.products import matrix_panels
from exploy.codegen.operators.registry import writes
from exploy.codegen.operators.shapes import subview
from exploy.codegen.operators.windows import Windows
from exploy.codegen.step_writer import Reader, StepWriter
from exploy.codegen.values import Constant, Value, View

_FEWEST_FOR_PANELS = 4  # channels of a group; fewer would leave most of a panel empty


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
    result = step.temporary((x.shape[0], channels, *windows.counts), x.dtype)
    bias = step.contiguous(operation.optional(2) or Constant(np.zeros(channels, x.dtype), "zeros"))
    form = _by_panels if channels // groups >= _FEWEST_FOR_PANELS else _by_lines
    form(step, image, np.stack(np.split(weights, groups)), bias, windows, result)
    return result


def _by_panels(step: StepWriter, image: View, weights: np.ndarray, bias: View, windows: Windows, result: View) -> None:
    """Write a convolution whose innermost loop goes over channels: for each group."""
    groups, channels, inputs = weights.shape[:3]
    taps = _taps(step, windows, inputs)
    starts = step.constant(windows.starts(), "windows")
    panels = np.stack([matrix_panels(part.reshape(channels, -1).T) for part in weights])
    table = step.constant(panels, "weights")
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


def _by_lines(step: StepWriter, image: View, weights: np.ndarray, bias: View, windows: Windows, result: View) -> None:
    """Write a convolution whose innermost loop goes over a line of windows: for each channel."""
    groups, channels, inputs = weights.shape[:3]
    taps = _taps(step, windows, inputs)
    width = windows.counts[-1]
    lines = step.constant(windows.starts()[::width], "lines")
    table = step.constant(weights, "weights")
    stack = (image.shape[0], groups, channels)
    plane, count = math.prod(windows.padded), windows.count
    views = [
        View(image.buffer, stack, (image.shape[1] * plane, inputs * plane, 0), image.offset),
        View(table.buffer, stack, (0, channels * taps.size, taps.size)),
        View(bias.buffer, stack, (0, channels, 1), bias.offset),
        View(result.buffer, stack, (groups * channels * count, channels * count, count)),
    ]
    function = step.kernel(f"convolve_lines_{suffix(result)}")
    sizes = f"{lines.size}, {width}, {windows.strides[-1]}, {taps.size}"

    def statement(reader: Reader) -> str:
        x, own, first, y = (reader(view) for view in views)
        tables = f"&{x}, {step.pointer(lines)}, {step.pointer(taps)}, &{own}, {first}, &{y}"
        return f"{function}({sizes}, {tables});"

    step.loop(stack, views, statement)


def _taps(step: StepWriter, windows: Windows, inputs: int) -> View:
    """Where the elements of a window are, of all channels of a group."""
    planes = np.arange(inputs, dtype=np.int32) * np.int32(math.prod(windows.padded))
    return step.constant(np.add.outer(planes, windows.taps()).reshape(-1).astype(np.int32), "taps")
