"""Floating-point operators that ONNX lacks, or whose ONNX form is wrong at zeros, infinities, NaN or huge values."""

import math
from typing import Any

import torch

from exploy.backends.onnx.exact_forms import float64

aten = torch.ops.aten


def is_negative(x: torch.Tensor) -> torch.Tensor:
    """Whether a number is below zero or is negative zero, which its reciprocal shows."""
    return (x < 0) | (x.reciprocal() < 0)


def atan2(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The angle by quadrant. ONNX has none, and torch's own form gives -π for atan2(0, -2) and 0 for atan2(1, nan)."""
    y, x = _promoted(y, x)
    both_infinite = y.isinf() & x.isinf()
    ratio = torch.where(both_infinite, 1.0, (y / x).abs())
    angle = torch.where(y == 0, 0.0, float64.atan(ratio) if ratio.dtype is torch.float64 else ratio.atan())
    angle = torch.where(is_negative(x), math.pi - angle, angle)
    angle = torch.where(is_negative(y), -angle, angle)
    return torch.where(x.isnan() | y.isnan(), x + y, angle).to(x.dtype)


def angle(x: torch.Tensor) -> Any:
    """π for negative numbers."""
    if not x.is_floating_point():
        return NotImplemented
    return torch.where(x.isnan(), x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


def sign(x: torch.Tensor) -> Any:
    """ONNX gives NaN for NaN, where torch gives 0, and onnxruntime is wrong for int64 from 2**31 on."""
    if x.dtype is torch.bool:
        return NotImplemented
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def signbit(x: torch.Tensor) -> torch.Tensor:
    """Also for negative zero."""
    return is_negative(x) if x.is_floating_point() else x < 0


def copysign(x: torch.Tensor, other: Any) -> torch.Tensor:
    """The magnitude of one number with the sign of another."""
    if not isinstance(other, torch.Tensor):
        magnitude = _as_float(x).abs()
        return -magnitude if math.copysign(1.0, other) < 0 else magnitude
    x, other = _promoted(x, other)
    return torch.where(is_negative(other), -x.abs(), x.abs())


def hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The length of (x, y), without overflow of the squares."""
    x, y = x.abs(), y.abs()
    largest = torch.maximum(x, y)
    scale = torch.where((largest == 0) | largest.isinf(), 1.0, largest)
    length = scale * ((x / scale).square() + (y / scale).square()).sqrt()
    return torch.where(x.isinf() | y.isinf(), math.inf, length).to(x.dtype)


def fmax(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The larger number; the other one where one is NaN."""
    x, y = _promoted(x, y)
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.maximum(x, y)))


def fmin(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The smaller number; the other one where one is NaN."""
    x, y = _promoted(x, y)
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.minimum(x, y)))


def log_sigmoid(x: torch.Tensor) -> torch.Tensor:
    """min(x, 0) - log(1 + exp(-|x|)), which does not overflow."""
    return torch.where(x < 0, x, 0.0).to(x.dtype) - x.abs().neg().exp().log1p()


def log_sigmoid_forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, with the buffer of its gradient, which nothing reads."""
    return log_sigmoid(x), x


def logaddexp(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """log(exp(x) + exp(y)), which does not overflow."""
    return _log_sum(x, y, 1.0)


def logaddexp2(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same for powers of two."""
    return _log_sum(x, y, math.log(2.0))


def _log_sum(x: torch.Tensor, y: torch.Tensor, base: float) -> torch.Tensor:
    largest = torch.maximum(x, y)
    total = largest + ((x - y).abs() * -base).exp().log1p() / base
    return torch.where((x == y) & x.isinf(), x, total)


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0, unless y is NaN."""
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return NotImplemented
    x, y = _promoted(x, y)
    return torch.where(y.isnan(), y, torch.where(x == 0, 0.0, x * y.log()).to(x.dtype))


def heaviside(x: torch.Tensor, at_zero: torch.Tensor) -> torch.Tensor:
    """0 below zero and for NaN, 1 above."""
    return torch.where(x == 0, at_zero, (x > 0).to(x.dtype))


def isclose(
    x: torch.Tensor, y: torch.Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> torch.Tensor:
    """|x - y| <= atol + rtol |y|; infinities are close to themselves alone."""
    close = x == y
    if not x.is_floating_point():
        x, y = x.to(torch.float64), y.to(torch.float64)
    elif equal_nan:
        close = close | (x.isnan() & y.isnan())
    error = (x - y).abs()
    return close | (error.isfinite() & (error <= atol + (rtol * y).abs()))


def fmod(x: torch.Tensor, y: Any) -> Any:
    """Integers: ONNX computes them as floats, which is wrong beyond 2**53."""
    if not isinstance(y, torch.Tensor) and not isinstance(y, int):
        return NotImplemented
    if x.is_floating_point() or (isinstance(y, torch.Tensor) and y.is_floating_point()):
        return NotImplemented
    left = torch.remainder(x, y)
    wrapped = (left != 0) & ((x < 0) != (left < 0))
    return left - wrapped.to(left.dtype) * y


def remainder(x: Any, y: Any) -> Any:
    """By the exact fmod: torch's own form computes x - y floor(x / y), which is wrong for huge ratios."""
    if not isinstance(x, torch.Tensor) or not _is_float(x, y):
        return NotImplemented
    left = torch.fmod(x, y)
    other_sign = (left != 0) & ((y < 0) != (left < 0) if isinstance(y, torch.Tensor) else (left < 0) != (y < 0))
    return torch.where(other_sign, left + y, left)


def div_mode(x: torch.Tensor, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Floor division of floats; truncated division is right."""
    return floor_divide(x, y) if rounding_mode == "floor" else NotImplemented


def floor_divide(x: torch.Tensor, y: Any) -> Any:
    """As Python divides: by the exact remainder, so that the quotient of huge ratios is right."""
    if not _is_float(x, y):
        return NotImplemented
    y = y if isinstance(y, torch.Tensor) else torch.full_like(x, float(y))
    x, y = _promoted(x, y)
    left = torch.fmod(x, y)
    quotient = (x - left) / y
    quotient = torch.where((left != 0) & ((y < 0) != (left < 0)), quotient - 1, quotient)
    rounded = quotient.floor()
    rounded = torch.where(quotient - rounded > 0.5, rounded + 1, rounded)
    return torch.where(y == 0, x / y, rounded)


def addcmul(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, value: float = 1) -> torch.Tensor:
    """In the order of torch, which matters where products overflow."""
    return x + (a * b if value == 1 else value * a * b)


def addcdiv(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, value: float = 1) -> torch.Tensor:
    """In the order of torch."""
    return x + (a / b if value == 1 else value * a / b)


def pow_number(x: torch.Tensor, exponent: Any) -> Any:
    """Roots as torch computes them, which are NaN at -inf."""
    if not x.is_floating_point() or exponent not in (0.5, -0.5):
        return NotImplemented
    return x.sqrt() if exponent == 0.5 else x.rsqrt()


def clamp(x: torch.Tensor, low: Any = None, high: Any = None) -> Any:
    """Both bounds as floats, and infinite where there is none: onnxruntime takes the largest number instead."""
    if not x.is_floating_point() or _is_nan(low) or _is_nan(high):
        return NotImplemented
    if isinstance(low, float) and isinstance(high, float):
        return NotImplemented
    return x.clamp(-math.inf if low is None else float(low), math.inf if high is None else float(high))


def clamp_min(x: torch.Tensor, low: Any) -> Any:
    """An upper bound is infinite."""
    return clamp(x, low, None)


def clamp_max(x: torch.Tensor, high: Any) -> Any:
    """A lower bound is infinite."""
    return clamp(x, None, high)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_float(x: Any, y: Any) -> bool:
    return any(item.is_floating_point() if isinstance(item, torch.Tensor) else type(item) is float for item in (x, y))


def _as_float(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _promoted(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both in the floating-point type that torch computes with."""
    dtype = torch.result_type(x, y)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    return x.to(dtype), y.to(dtype)


FORMS = {
    aten.atan2.default: atan2,
    aten.arctan2.default: atan2,
    aten.angle.default: angle,
    aten.sign.default: sign,
    aten.sgn.default: sign,
    aten.signbit.default: signbit,
    aten.copysign.Tensor: copysign,
    aten.copysign.Scalar: copysign,
    aten.hypot.default: hypot,
    aten.fmax.default: fmax,
    aten.fmin.default: fmin,
    aten.log_sigmoid.default: log_sigmoid,
    aten.log_sigmoid_forward.default: log_sigmoid_forward,
    aten.logaddexp.default: logaddexp,
    aten.logaddexp2.default: logaddexp2,
    aten.xlogy.Tensor: xlogy,
    aten.special_xlogy.default: xlogy,
    aten.heaviside.default: heaviside,
    aten.isclose.default: isclose,
    aten.fmod.Tensor: fmod,
    aten.fmod.Scalar: fmod,
    aten.remainder.Tensor: remainder,
    aten.remainder.Scalar: remainder,
    aten.div.Tensor_mode: div_mode,
    aten.div.Scalar_mode: div_mode,
    aten.floor_divide.default: floor_divide,
    aten.floor_divide.Scalar: floor_divide,
    aten.addcmul.default: addcmul,
    aten.addcdiv.default: addcdiv,
    aten.pow.Tensor_Scalar: pow_number,
    aten.clamp.default: clamp,
    aten.clip.default: clamp,
    aten.clamp_min.default: clamp_min,
    aten.clamp_max.default: clamp_max,
}
