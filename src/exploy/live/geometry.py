"""Memory location and layout of a tensor.

Memory is compared by address, not by tensor or storage identity, because functions such as `torch.from_numpy` create a
new storage for the same memory at every call.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy

from exploy.environment.tensor_copies import computes_by_itself


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor is an ordinary strided tensor whose storage can be accessed."""
    with torch._C.DisableTorchFunction():
        return (
            tensor.layout is torch.strided
            and not tensor.is_nested
            and tensor.device.type != "meta"
            and not is_lazy(tensor)
            and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
            and not isinstance(tensor, FakeTensor)
            and not (computes_by_itself(tensor) and _is_wrapper(tensor))
        )


def _is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no memory of its own, but wraps others."""
    try:
        return tensor.numel() > 0 and tensor.untyped_storage().data_ptr() == 0
    except RuntimeError:
        return True


@dataclass(frozen=True)
class Geometry:
    """Address, shape and strides (in elements) of a tensor."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Geometry":
        """Read the geometry of a live tensor."""
        with torch._C.DisableTorchFunction():
            return cls(tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)

    @property
    def itemsize(self) -> int:
        """Size of one element in bytes."""
        return self.dtype.itemsize

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def start(self) -> int:
        """Address of the first byte."""
        return self.address

    @property
    def stop(self) -> int:
        """Address after the last byte; the start if the tensor is empty."""
        if self.numel == 0:
            return self.address
        span = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return self.address + (span + 1) * self.itemsize

    @cached_property
    def elements(self) -> np.ndarray:
        """Sorted addresses of all elements, without duplicates."""
        if self._is_row_major:
            return self.address + self.itemsize * np.arange(self.numel, dtype=np.int64)
        offsets = np.zeros((), dtype=np.int64)
        for size, stride in zip(self.shape, self.strides, strict=True):
            offsets = offsets[..., None] + np.arange(size, dtype=np.int64) * stride
        return np.unique(self.address + offsets * self.itemsize)

    @property
    def _is_row_major(self) -> bool:
        """Whether the elements lie one after the other, as in a new tensor."""
        stride = 1
        for size, own in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and own != stride:
                return False
            stride *= size
        return True

    @property
    def is_dense(self) -> bool:
        """Whether the elements fill the range from start to stop without gaps or repetitions."""
        return self.numel * self.itemsize == self.stop - self.start and self.elements.size == self.numel

    @property
    def repeats_elements(self) -> bool:
        """Whether several indices share one memory location, as in an expanded tensor."""
        return self.elements.size != self.numel

    def overlaps(self, other: "Geometry") -> bool:
        """Whether the two tensors share memory."""
        if self.start >= other.stop or other.start >= self.stop:
            return False
        if self.is_dense and other.is_dense:
            return True
        if self.itemsize != other.itemsize:
            return True
        return bool(np.intersect1d(self.elements, other.elements, assume_unique=True).size)

    def contains(self, other: "Geometry") -> bool:
        """Whether every element of `other` is also an element of this tensor."""
        if other.start < self.start or other.stop > self.stop:
            return False
        return self.is_dense or bool(np.isin(other.elements, self.elements, assume_unique=True).all())

    def same_place(self, other: "Geometry") -> bool:
        """Whether address, shape, dtype and strides are the same; strides of size-1 dimensions are ignored."""
        return (self.address, self.shape, self.dtype) == (
            other.address,
            other.shape,
            other.dtype,
        ) and self._effective_strides() == other._effective_strides()

    def _effective_strides(self) -> list[int]:
        return [stride for size, stride in zip(self.shape, self.strides, strict=True) if size != 1]
