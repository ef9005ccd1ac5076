"""Windows of images, of one or more dimensions: which elements are in them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exploy.codegen.operation import Operation
from exploy.codegen.operators.shapes import subview
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Constant, Value, View, row_major


@dataclass(frozen=True)
class Windows:
    """Windows that are moved over an image.

    Args:
        image: The sizes of the image, without what is added around it.
        kernel: The sizes of a window.
        strides: How far windows are apart, in each dimension.
        dilations: How far the elements of a window are apart.
        pads: What is added before and after each dimension.
        counts: How many windows there are in each dimension.
    """

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, operation: Operation, image: Sequence[int], kernel: Sequence[int]) -> "Windows":
        """The windows of an operator.

        Raises:
            LoweringError: If elements are cut off instead of added.
        """
        rank = len(image)
        strides = tuple(operation.attribute("strides", [1] * rank))
        dilations = tuple(operation.attribute("dilations", [1] * rank))
        extents = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
        pads = _pads(operation, image, strides, extents)
        if any(side < 0 for both in pads for side in both):
            raise operation.refused("with negative pads")
        rounded_up = operation.attribute("ceil_mode", 0)
        counts = []
        for axis, (size, stride, extent) in enumerate(zip(image, strides, extents, strict=True)):
            before, after = pads[axis]
            room = size + before + after - extent
            count = (-(-room // stride) if rounded_up else room // stride) + 1
            if rounded_up and (count - 1) * stride >= size + before:
                count -= 1  # a window must not begin behind the image
            counts.append(count)
        return cls(tuple(image), tuple(kernel), strides, dilations, tuple(pads), tuple(counts))

    @property
    def count(self) -> int:
        """How many windows there are."""
        return math.prod(self.counts)

    @property
    def padded(self) -> tuple[int, ...]:
        """The sizes of the image with what is added around it, as far as windows reach."""
        reach = [
            (count - 1) * stride + (size - 1) * dilation + 1
            for count, stride, size, dilation in zip(
                self.counts, self.strides, self.kernel, self.dilations, strict=True
            )
        ]
        return tuple(
            max(needed, before + size + after)
            for needed, size, (before, after) in zip(reach, self.image, self.pads, strict=True)
        )

    def starts(self) -> np.ndarray:
        """Where each window starts in the padded image."""
        steps = [stride * far for stride, far in zip(self.strides, row_major(self.padded), strict=True)]
        return _offsets(self.counts, steps)

    def taps(self) -> np.ndarray:
        """Where the elements of a window are, from its start."""
        steps = [dilation * far for dilation, far in zip(self.dilations, row_major(self.padded), strict=True)]
        return _offsets(self.kernel, steps)

    def elements_in(self, before: Sequence[int], after: Sequence[int]) -> np.ndarray:
        """How many elements of each window are in the image, or at most so far before and after it."""
        counts = np.ones((), np.int64)
        for axis, size in enumerate(self.image):
            starts = np.arange(self.counts[axis]) * self.strides[axis] - self.pads[axis][0]
            places = starts[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]
            inside = (places >= -before[axis]) & (places < size + after[axis])
            counts = np.multiply.outer(counts, inside.sum(1))
        return counts.reshape(-1)

    def image_with_pads(self, step: StepWriter, value: Value, filling: np.generic) -> View:
        """Images in the last dimensions, with a number around each."""
        if self.padded == self.image:
            return step.contiguous(value)
        lead = value.shape[: -len(self.image)]
        result = step.temporary((*lead, *self.padded), value.dtype, "padded")
        step.store(Constant(np.full(result.shape, filling, value.dtype)), result)
        inner = [slice(before, before + size) for size, (before, _) in zip(self.image, self.pads, strict=True)]
        step.store(value, subview(result, [*[slice(None)] * len(lead), *inner]))
        return result


def _pads(
    operation: Operation, image: Sequence[int], strides: Sequence[int], extents: Sequence[int]
) -> list[tuple[int, int]]:
    rank = len(image)
    automatic = str(operation.attribute("auto_pad", "NOTSET"))
    if automatic == "VALID":
        return [(0, 0)] * rank
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        missing = [
            max((-(-size // stride) - 1) * stride + extent - size, 0)
            for size, stride, extent in zip(image, strides, extents, strict=True)
        ]
        halves = [(total // 2, total - total // 2) for total in missing]
        return halves if automatic == "SAME_UPPER" else [(after, before) for before, after in halves]
    pads = operation.attribute("pads", [0] * (2 * rank))
    return list(zip(pads[:rank], pads[rank:], strict=True))


def _offsets(sizes: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    found = np.zeros((), np.int64)
    for size, step in zip(sizes, steps, strict=True):
        found = np.add.outer(found, np.arange(size) * step)
    return found.reshape(-1).astype(np.int32)
