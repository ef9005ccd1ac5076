"""Functions of torch that TorchRL calls and a file cannot have as they are."""

import math
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

_SPECS = "data/tensor_specs.py"
_BRANCHES_OF_SPECS = ("rand", "is_in", "project")
_TEST_OF_BOUNDS = ("modules/distributions/truncated_normal.py", "TruncatedStandardNormal.__init__")
_TEST_OF_PROBABILITIES = ("modules/tensordict_module/actors.py", "DistributionalQValueModule._support_expected")
_CLIPPING = ("modules/distributions/truncated_normal.py", "TruncatedNormal.icdf")


class ExportableForms(TorchFunctionMode):
    """Answers for branches of TorchRL where one answer is right for all values, and writes some functions otherwise.

    A branch of another version that is not known here is met by the capture, which refuses it.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch function, or what stands for it."""
        kwargs = kwargs or {}
        if func is torch.Tensor.__bool__ and _is_in_spec(sys._getframe(1).f_code, *_BRANCHES_OF_SPECS):
            return (
                False  # neither inside, since projecting what is inside changes nothing, nor out of range by rounding
            )
        if func is torch.Tensor.__bool__ and _place(sys._getframe(1).f_code) == _TEST_OF_PROBABILITIES:
            return False  # all of them are in order
        if func is torch.multinomial and _is_in_spec(sys._getframe(1).f_code, "_project"):
            return torch.argmax(args[0], dim=-1, keepdim=True)  # of a vector that is one-hot already
        if func is torch.Tensor.ge and _place(sys._getframe(1).f_code) == _TEST_OF_BOUNDS:
            return torch.zeros(0, dtype=torch.bool)  # no bound is out of order
        if func == torch.Tensor.data.__get__ and _place(sys._getframe(1).f_code) == _CLIPPING:  # type: ignore[attr-defined]
            return args[0]  # without gradients it is the tensor itself
        if func in _TESTS and all(_is_constant(value) for value in (*args, *kwargs.values())):
            with _disable_current_modes():
                return func(*args, **kwargs)
        form = _FORMS.get(func)
        return form(*args, **kwargs) if form is not None else func(*args, **kwargs)


def _is_constant(value: Any) -> bool:
    """Whether a value is known while the policy is captured, such as the bounds of actions."""
    return not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter)


def _is_in_spec(code: Any, *functions: str) -> bool:
    path, name = _place(code)
    return path == _SPECS and name.rpartition(".")[2] in functions


def _place(code: Any) -> tuple[str, str]:
    """The path of a function's file inside of torchrl, and the function's name in it."""
    path = code.co_filename.replace(os.sep, "/").rpartition("/torchrl/")[2]
    return path, code.co_qualname


def _uniform(tensor: torch.Tensor, low: float = 0.0, high: float = 1.0, **_: Any) -> torch.Tensor:
    return tensor.copy_(torch.rand_like(tensor) * (high - low) + low)


def _sum(tensor: torch.Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> torch.Tensor:
    """A sum of flags as flags tells whether one is set, which ONNX has no sum for."""
    if tensor.dtype != torch.bool or kwargs.get("dtype") != torch.bool or not isinstance(dim, tuple):
        return torch.sum(tensor, **({} if dim is None else {"dim": dim, "keepdim": keepdim}), **kwargs)
    for axis in sorted((axis % tensor.ndim for axis in dim), reverse=True):
        tensor = tensor.any(dim=axis, keepdim=keepdim)
    return tensor


def _erfinv(tensor: torch.Tensor) -> torch.Tensor:
    """The inverse of erf, by Winitzki's formula and two steps of Newton."""
    a = 0.147
    log = torch.log1p(-tensor * tensor)
    half = 2 / (math.pi * a) + log / 2
    guess = torch.sign(tensor) * torch.sqrt(torch.sqrt(half * half - log / a) - half)
    for _ in range(2):
        slope = 2 / math.sqrt(math.pi) * torch.exp(-guess * guess)
        guess = guess - (torch.erf(guess) - tensor) / slope
    return guess


_TESTS = {
    *(getattr(torch.Tensor, name) for name in ("all", "any", "eq", "ge", "gt", "le", "lt", "ne", "__bool__")),
    *(getattr(torch, name) for name in ("all", "any")),
}
_FORMS: dict[Any, Callable[..., torch.Tensor]] = {
    torch.Tensor.uniform_: _uniform,
    torch.Tensor.sum: _sum,
    torch.Tensor.erfinv: _erfinv,
    torch.erfinv: _erfinv,
}
