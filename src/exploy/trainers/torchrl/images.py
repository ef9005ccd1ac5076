"""TorchRL image transforms that use torchvision, implemented without torchvision."""

import math
from typing import Any

import torch
from torch.nn.functional import interpolate, pad

from exploy.errors import PolicyError
from exploy.trainers.torchrl.torchrl_internals import function_of_tensor

NEAREST = ("nearest", "nearest-exact")
SMOOTH = ("bilinear", "bicubic")


class Resized(torch.nn.Module):
    """Resizes an image of shape (…, height, width) like torchvision with antialiasing.

    All interpolations are linear along each axis. So `interpolate` is applied once to the row indices (nearest modes)
    to find the selected rows, or to unit vectors (smooth modes) to find the weights of the rows.

    Args:
        size: Height and width of the result.
        mode: The interpolation mode.

    Raises:
        PolicyError: If the mode is not nearest, nearest-exact, bilinear or bicubic.
    """

    def __init__(self, size: tuple[int, int], mode: str):
        super().__init__()
        if mode not in (*NEAREST, *SMOOTH):
            raise PolicyError(
                f"Resize(interpolation={mode!r}) cannot be exported. Only {', '.join((*NEAREST, *SMOOTH))} can be "
                "reproduced without torchvision."
            )
        self.size = size
        self.mode = mode
        self._plans: dict[tuple[int, int], torch.Tensor] = {}

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Resize images whose last two axes are height and width."""
        if tuple(image.shape[-2:]) == self.size:
            return image
        height, width = (self._plan(image.shape[axis], size) for axis, size in zip((-2, -1), self.size, strict=True))
        if self.mode in NEAREST:
            return image.index_select(image.ndim - 2, height).index_select(image.ndim - 1, width)
        is_float = image.dtype in (torch.float32, torch.float64)
        values = image if is_float else image.to(torch.float32)
        resized = height.to(values.dtype) @ (values @ width.to(values.dtype).T)
        return resized if is_float else self._as_integers(resized, image.dtype)

    def of_pixels(self, pixels: torch.Tensor) -> torch.Tensor:
        """Resize images of shape (…, height, width, colours), for nearest modes only."""
        for axis, size in zip((-3, -2), self.size, strict=True):
            if pixels.shape[axis] != size:
                pixels = pixels.index_select(pixels.ndim + axis, self._plan(pixels.shape[axis], size))
        return pixels

    def _plan(self, size: int, new: int) -> torch.Tensor:
        """The indices of the selected rows, or the weights of all rows for each new row. Cached by size."""
        if (size, new) not in self._plans:
            self._plans[size, new] = _rows(size, new, self.mode) if self.mode in NEAREST else self._weights(size, new)
        return self._plans[size, new]

    def _weights(self, size: int, new: int) -> torch.Tensor:
        units = torch.eye(size)[None, None]
        resized = interpolate(units, size=(new, size), mode=self.mode, align_corners=False, antialias=True)
        return resized[0, 0]

    def _as_integers(self, resized: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if self.mode == "bicubic" and dtype == torch.uint8:
            resized = resized.clamp(0, 255)
        return resized.round().to(dtype) if not dtype.is_floating_point else resized.to(dtype)


def _rows(size: int, new: int, mode: str) -> torch.Tensor:
    numbers = torch.arange(size, dtype=torch.float32)[None, None]
    return interpolate(numbers, size=new, mode=mode)[0, 0].to(torch.int64)


class Cropped(torch.nn.Module):
    """Crops an image of shape (…, height, width) at its centre or at a corner. Padded with zeros.

    Args:
        size: Height and width of the result.
        corner: Top and left of the crop. Default: the crop is centred.
    """

    def __init__(self, size: tuple[int, int], corner: tuple[int, int] | None = None):
        super().__init__()
        self.size = size
        self.corner = corner

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Crop images whose last two axes are height and width."""
        if self.corner is None:
            image = pad(image, _missing(image.shape[-1], self.size[1]) + _missing(image.shape[-2], self.size[0]))
            top, left = (round((image.shape[axis] - self.size[axis]) / 2) for axis in (-2, -1))
        else:
            top, left = self.corner
            beyond = (left + self.size[1] - image.shape[-1], top + self.size[0] - image.shape[-2])
            image = pad(image, [max(-left, 0), max(beyond[0], 0), max(-top, 0), max(beyond[1], 0)])
            top, left = max(top, 0), max(left, 0)
        return image[..., top : top + self.size[0], left : left + self.size[1]]


def _missing(size: int, wanted: int) -> list[int]:
    gap = max(wanted - size, 0)
    return [gap // 2, math.ceil(gap / 2)]


class ResizedFirst(torch.nn.Module):
    """Resizes before `ToTensorImage`, which is faster and gives the same result for nearest modes.

    Args:
        resized: The resize operation.
        to_tensor: The `ToTensorImage` transform.
    """

    def __init__(self, resized: Resized, to_tensor: Any):
        super().__init__()
        self.resized = resized
        self.to_tensor = to_tensor

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Convert raw pixels of (…, height, width, colours) to an image of (…, colours, height, width)."""
        return function_of_tensor(self.to_tensor)(self.resized.of_pixels(pixels))


class Grey(torch.nn.Module):
    """Converts an image of shape (…, 3, height, width) to greyscale with one matrix product."""

    def __init__(self, weights: tuple[float, float, float]):
        super().__init__()
        self.weights: torch.Tensor
        self.register_buffer("weights", torch.tensor([weights]))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Compute the weighted sum of the colours."""
        values = image if image.is_floating_point() else image.float()
        shades: torch.Tensor = self.weights.to(values.dtype) @ values.flatten(-2)
        return shades.reshape(*shades.shape[:-1], *image.shape[-2:]).to(image.dtype)


def grey(transform: Any) -> Grey:
    """The exportable form of a `GrayScale`. Its weights are read from its results for pure colours."""
    pure = torch.eye(3).view(3, 3, 1, 1)
    red, green, blue = (float(function_of_tensor(transform)(colour)) for colour in pure)
    return Grey((red, green, blue))


def resized(transform: Any) -> Resized:
    """The exportable form of a `Resize`."""
    return Resized((transform.w, transform.h), str(getattr(transform.interpolation, "value", transform.interpolation)))


def cropped(transform: Any) -> Cropped:
    """The exportable form of a `Crop` or `CenterCrop`."""
    size = (int(transform.w), int(transform.h))
    return Cropped(size, (int(transform.top), int(transform.left)) if hasattr(transform, "top") else None)
