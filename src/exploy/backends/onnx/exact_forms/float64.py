"""Functions for which onnxruntime has no float64 kernel, from those for which it has one."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

aten = torch.ops.aten


def _for_float64(form: Callable[..., Any]) -> Callable[..., Any]:
    def for_float64(x: torch.Tensor, *args: Any, **options: Any) -> Any:
        return form(x, *args, **options) if x.dtype is torch.float64 else NotImplemented

    return for_float64


def atan(x: torch.Tensor) -> torch.Tensor:
    """A float32 angle, made exact by one step of Newton's method; beyond 1 that of the reciprocal."""
    is_large = x.abs() > 1
    small = torch.where(is_large, x.reciprocal(), x)
    guess = small.to(torch.float32).atan().to(torch.float64)
    tangent = guess.sin() / guess.cos()
    found = guess - (tangent - small) / (1 + tangent * tangent)
    quarter_turn = torch.full_like(x, math.pi / 2)
    return torch.where(is_large, torch.where(x > 0, quarter_turn, -quarter_turn) - found, found)


def asin(x: torch.Tensor) -> torch.Tensor:
    """By the tangent of its half."""
    return 2 * atan(x / (1 + ((1 - x) * (1 + x)).sqrt()))


def acos(x: torch.Tensor) -> torch.Tensor:
    """By the tangent of its half."""
    found = 2 * atan((1 - x).sqrt() / (1 + x).sqrt())
    return torch.where(x == -1, math.pi, found)


def tan(x: torch.Tensor) -> torch.Tensor:
    """sin / cos."""
    return x.sin() / x.cos()


def sinh(x: torch.Tensor) -> torch.Tensor:
    """By the exponential function without 1, which is exact near zero."""
    grown = x.abs().expm1()
    found = torch.where(grown.isinf(), grown, (grown + grown / (grown + 1)) / 2)
    return torch.where(x < 0, -found, found)


def cosh(x: torch.Tensor) -> torch.Tensor:
    """By the exponential function."""
    grown = x.abs().exp()
    return (grown + grown.reciprocal()) / 2


def elu(x: torch.Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> torch.Tensor:
    """Linear above zero."""
    return torch.where(x > 0, x * scale, (x * input_scale).expm1() * (alpha * scale))


def celu(x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    """Linear above zero."""
    return elu(x, alpha, 1.0, 1.0 / alpha)


def selu(x: torch.Tensor) -> torch.Tensor:
    """Linear above zero."""
    return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def leaky_relu(x: torch.Tensor, negative_slope: float = 0.01) -> torch.Tensor:
    """Two slopes."""
    return torch.where(x > 0, x, x * negative_slope)


def softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20) -> torch.Tensor:
    """log(1 + exp(x)), which does not overflow."""
    scaled = x * beta
    return torch.where(scaled > threshold, x, (F.relu(scaled) + scaled.abs().neg().exp().log1p()) / beta)


def mish(x: torch.Tensor) -> torch.Tensor:
    """x tanh(softplus(x))."""
    return x * softplus(x).tanh()


def hardsigmoid(x: torch.Tensor) -> torch.Tensor:
    """A line between 0 and 1."""
    return (x + 3).clamp(0.0, 6.0) / 6


def hardswish(x: torch.Tensor) -> torch.Tensor:
    """x times that line."""
    return x * (x + 3).clamp(0.0, 6.0) / 6


def gelu(x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """By tanh, or by erf, for which there is no kernel: the export says so."""
    if approximate == "tanh":
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)).tanh())
    return 0.5 * x * (1 + (x / math.sqrt(2)).erf())


FORMS = {
    aten.gelu.default: _for_float64(gelu),
    aten.atan.default: _for_float64(atan),
    aten.asin.default: _for_float64(asin),
    aten.acos.default: _for_float64(acos),
    aten.tan.default: _for_float64(tan),
    aten.sinh.default: _for_float64(sinh),
    aten.cosh.default: _for_float64(cosh),
    aten.elu.default: _for_float64(elu),
    aten.celu.default: _for_float64(celu),
    aten.selu.default: _for_float64(selu),
    aten.leaky_relu.default: _for_float64(leaky_relu),
    aten.softplus.default: _for_float64(softplus),
    aten.mish.default: _for_float64(mish),
    aten.hardsigmoid.default: _for_float64(hardsigmoid),
    aten.hardswish.default: _for_float64(hardswish),
}
