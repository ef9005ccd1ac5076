"""Arrays in one block of memory, so that one operation can process all of them."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import numpy as np

_ALIGNMENT = 64  # bytes; the alignment that onnxruntime's kernels prefer
_Key = TypeVar("_Key", bound=Hashable)

Layout = tuple[np.dtype, tuple[int, ...]]


class Arena(Generic[_Key]):
    """Named arrays of zeros. All arrays of one dtype are in one flat array.

    Args:
        layouts: Dtype and shape of each array, by key. Arrays of one dtype are stored in this order.
    """

    def __init__(self, layouts: Mapping[_Key, Layout]):
        self._spans: dict[_Key, slice] = {}
        sizes: dict[np.dtype, int] = {}
        for key, (dtype, shape) in layouts.items():
            start = sizes.get(dtype, 0)
            stop = start + int(np.prod(shape, dtype=np.int64))
            self._spans[key] = slice(start, stop)
            step = max(1, _ALIGNMENT // dtype.itemsize)
            sizes[dtype] = -(-stop // step) * step
        self.flat = {dtype: _aligned_zeros(size, dtype) for dtype, size in sizes.items()}
        self.arrays = {
            key: self.flat[dtype][self._spans[key]].reshape(shape) for key, (dtype, shape) in layouts.items()
        }

    def section(self, keys: Iterable[_Key]) -> dict[np.dtype, slice]:
        """Return the slice of consecutive arrays in the flat array of each dtype, including gaps between them."""
        sections: dict[np.dtype, slice] = {}
        for key in keys:
            dtype, span = self.arrays[key].dtype, self._spans[key]
            start = sections[dtype].start if dtype in sections else span.start
            sections[dtype] = slice(start, span.stop)
        return sections

    def span(self, key: _Key) -> slice:
        """Return the slice of an array in the flat array of its dtype."""
        return self._spans[key]


def _aligned_zeros(size: int, dtype: np.dtype) -> np.ndarray:
    memory = np.zeros(size * dtype.itemsize + _ALIGNMENT, dtype=np.uint8)
    offset = -memory.ctypes.data % _ALIGNMENT
    return memory[offset : offset + size * dtype.itemsize].view(dtype)
