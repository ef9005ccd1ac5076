"""Everything that depends on undocumented internals of TorchRL.

- Functions in its source whose calls of torch are replaced by a fixed result: `ANSWERED_CALLS`.
- Class names that are matched as strings: the sets and tables below. Public class names are also matched in
  `STAGES_BY_NAME` of transforms.py, and individually in transforms.py and modules.py.
- Private attributes and methods of transforms, such as `_call`, `_step` and `_parent`.
- Private attributes and methods of modules, such as `_empty_net` and `_module_iter`.

No other file in this folder uses private names of TorchRL. A removed private name raises an AttributeError. A renamed
function or class raises nothing here: the capture fails later, or the transform is treated as a custom transform.
`tests/trainers/test_torchrl_internals.py` checks all of these names against the installed TorchRL, and says what to
edit.
"""

import contextlib
import copy
import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from exploy.policy.copies import own_copy
from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.tensordicts import EXTRA

T = TypeVar("T")
_UNINITIALIZED: Any = (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)

# Class names of transforms.
WITHOUT_PART_IN_A_STEP = {
    "ActionMask",
    "AutoResetTransform",
    "DeviceCastTransform",
    "EndOfLifeTransform",
    "ExcludeTransform",
    "FiniteTensorDictCheck",
    "FrameSkipTransform",
    "NoopResetEnv",
    "PinMemoryTransform",
    "RandomTruncationTransform",
    "RemoveEmptySpecs",
    "SelectTransform",
    "TerminateTransform",
}
STEPPING_THE_ENVIRONMENT = {"ActionChunkTransform", "MultiAction", "ConditionalSkip", "ConditionalPolicySwitch"}
STATEFUL = {"NextObservationDelta", "RewardSum", "TargetReturn", "TimeMaxPool", "Timer", "TrajCounter"}
RUNNING_NORMALIZATIONS = {"VecNorm", "VecNormV2"}
# Class names of modules; for recurrent modules with the attribute that holds the network.
RECURRENT_NETWORKS = {"LSTMModule": "lstm", "GRUModule": "gru"}
MULTI_AGENT_NETWORK = "MultiAgentNetBase"
SELECTION_OF_KEYS = "_OutKeysSelect"


# ---- torch calls in TorchRL's source ----


@dataclass(frozen=True)
class AnsweredCall:
    """A torch call in TorchRL's source that is replaced by a fixed result.

    Args:
        called: The torch function.
        file: The calling file, as a path inside torchrl.
        function: The qualified name of the calling function. `*.name` is a method of any class.
        answer: Computes the result from the arguments of the call.
    """

    called: Any
    file: str
    function: str
    answer: Callable[..., Any]

    def is_made_by(self, code: CodeType) -> bool:
        """Whether a function contains this call."""
        file, name = place_of(code)
        if self.function.startswith("*."):
            name = f"*.{name.rpartition('.')[2]}"
        return (file, name) == (self.file, self.function)


def place_of(code: CodeType) -> tuple[str, str]:
    """The path of a function's file inside torchrl, and the function's qualified name."""
    return code.co_filename.replace(os.sep, "/").rpartition("/torchrl/")[2], code.co_qualname


def _no(_: Any) -> bool:
    return False


def _no_flags(*_: Any) -> torch.Tensor:
    return torch.zeros(0, dtype=torch.bool)


def _largest(values: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return torch.argmax(values, dim=-1, keepdim=True)


def _itself(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    return tensor


_SPECS = "data/tensor_specs.py"
_TRUNCATED_NORMAL = "modules/distributions/truncated_normal.py"
_ACTORS = "modules/tensordict_module/actors.py"
_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]

ANSWERED_CALLS = (
    AnsweredCall(torch.Tensor.__bool__, _SPECS, "*.rand", _no),  # no sample is out of range because of rounding
    AnsweredCall(torch.Tensor.__bool__, _SPECS, "*.is_in", _no),  # projecting a value that is inside changes nothing
    AnsweredCall(torch.Tensor.__bool__, _SPECS, "*.project", _no),
    AnsweredCall(
        torch.Tensor.__bool__, _ACTORS, "DistributionalQValueModule._support_expected", _no
    ),  # no value is above 0
    AnsweredCall(torch.multinomial, _SPECS, "*._project", _largest),  # the vector is already one-hot
    AnsweredCall(
        torch.Tensor.ge, _TRUNCATED_NORMAL, "TruncatedStandardNormal.__init__", _no_flags
    ),  # the bounds are in order
    AnsweredCall(_DATA, _TRUNCATED_NORMAL, "TruncatedNormal.icdf", _itself),  # the same without gradients
)


class CapturableCalls(TorchFunctionMode):
    """Replaces torch calls of TorchRL by forms that can be captured.

    A branch whose result is the same for all values gets this result. Comparisons of constants are computed
    immediately. Functions without an exportable form are rewritten. An unknown branch of another TorchRL version makes
    the capture fail.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch function or its replacement."""
        kwargs = kwargs or {}
        for call in ANSWERED_CALLS:
            if func == call.called and call.is_made_by(sys._getframe(1).f_code):
                return call.answer(*args, **kwargs)
        if func in _COMPARISONS and all(_is_constant(value) for value in (*args, *kwargs.values())):
            with _disable_current_modes():
                return func(*args, **kwargs)
        return _REWRITTEN.get(func, func)(*args, **kwargs)


def _is_constant(value: Any) -> bool:
    """Whether a value is constant during the capture, such as the bounds of actions."""
    return not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter)


def _uniform(tensor: torch.Tensor, low: float = 0.0, high: float = 1.0, **_: Any) -> torch.Tensor:
    return tensor.copy_(torch.rand_like(tensor) * (high - low) + low)


def _sum(tensor: torch.Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> torch.Tensor:
    """Compute a sum of flags with a boolean result as `any()`, because ONNX has no such sum."""
    if tensor.dtype != torch.bool or kwargs.get("dtype") != torch.bool or not isinstance(dim, tuple):
        return torch.sum(tensor, **({} if dim is None else {"dim": dim, "keepdim": keepdim}), **kwargs)
    for axis in sorted((axis % tensor.ndim for axis in dim), reverse=True):
        tensor = tensor.any(dim=axis, keepdim=keepdim)
    return tensor


def _erfinv(tensor: torch.Tensor) -> torch.Tensor:
    """The inverse of erf: Winitzki's approximation and two Newton steps."""
    a = 0.147
    log = torch.log1p(-tensor * tensor)
    half = 2 / (math.pi * a) + log / 2
    guess = torch.sign(tensor) * torch.sqrt(torch.sqrt(half * half - log / a) - half)
    for _ in range(2):
        slope = 2 / math.sqrt(math.pi) * torch.exp(-guess * guess)
        guess = guess - (torch.erf(guess) - tensor) / slope
    return guess


_COMPARISONS = {
    *(getattr(torch.Tensor, name) for name in ("all", "any", "eq", "ge", "gt", "le", "lt", "ne", "__bool__")),
    *(getattr(torch, name) for name in ("all", "any")),
}
_REWRITTEN: dict[Any, Callable[..., torch.Tensor]] = {
    torch.Tensor.uniform_: _uniform,
    torch.Tensor.sum: _sum,
    torch.Tensor.erfinv: _erfinv,
    torch.erfinv: _erfinv,
}


# ---- copies of objects of a training run ----


def own(module: T) -> T:
    """A copy on the CPU in evaluation mode. Tensors without data stay without data.

    Multi-agent networks have such tensors, and transforms that are initialised by an environment later.
    """
    with _NoDataStaysNoData():
        return own_copy(module)


def uninitialized(module: torch.nn.Module) -> list[str]:
    """The names of parameters and buffers that have no shape yet."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return [name for name, tensor in tensors if isinstance(tensor, _UNINITIALIZED)]


def peek(owner: Any, name: str) -> Any:
    """An attribute, or None if reading it fails. Attributes that the library caches meanwhile are removed again."""
    before = dict(vars(owner))
    try:
        return getattr(owner, name)
    except Exception:
        return None
    finally:
        vars(owner).clear()
        vars(owner).update(before)


class _NoDataStaysNoData(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tensor = args[0] if args else None
        if isinstance(tensor, _UNINITIALIZED):
            if func is torch.Tensor.detach:
                return _UNINITIALIZED[1](dtype=tensor.dtype)
            if func in (torch.Tensor.cpu, torch.Tensor.clone):
                return tensor
        if func is torch.Tensor.cpu and isinstance(tensor, torch.Tensor) and tensor.is_meta:
            return tensor
        return func(*args, **(kwargs or {}))


# ---- transforms ----


def without_environment(transform: Any) -> Any:
    """A copy of a transform without its environment."""
    alone = copy.copy(transform)
    vars(alone).update(_container=None, _parent=None)
    return own(alone)


def filled_from_environment(transform: Any) -> Any:
    """A copy without its environment, initialised with the values that it reads from the environment at first use."""
    copied, parent = without_environment(transform), peek(transform, "parent")
    if parent is None:
        return copied
    vars(copied)["_parent"] = parent
    if type(transform).__name__ == "ActionScaling" and uninitialized(copied):
        copied._ensure_initialized()
    if type(transform).__name__ == "ActionDiscretizer" and not hasattr(copied, "intervals"):
        copied.transform_input_spec(parent.input_spec.clone())
    vars(copied)["_parent"] = None
    return copied


def has_a_step_of_its_own(transform: Any) -> bool:
    """Whether it overrides how it processes a step."""
    return type(transform)._step is not _transform_class()._step


def works_by_tensor(transform: Any) -> bool:
    """Whether it is a function of single tensors. Otherwise it is a function of the tensordict."""
    return type(transform)._call is _transform_class()._call


def function_of_tensor(transform: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """The method of a transform that processes a tensor."""
    return transform._apply_transform  # type: ignore[no-any-return]


def function_of_tensordict(transform: Any) -> Callable[[Any], Any]:
    """The method of a transform that processes a tensordict."""
    return transform._call  # type: ignore[no-any-return]


def inverts_by_tensor(transform: Any) -> bool:
    """Whether its inverse is a function of single tensors. Otherwise it is a function of the tensordict."""
    return type(transform)._inv_call is _transform_class()._inv_call


def inverse_of_tensor(transform: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """The method of a transform that processes a tensor sent to the environment."""
    return transform._inv_apply_transform  # type: ignore[no-any-return]


def inverse_of_tensordict(transform: Any) -> Callable[[Any], Any]:
    """The method of a transform that processes a tensordict sent to the environment."""
    return transform._inv_call  # type: ignore[no-any-return]


def observer(note: Callable[[Any], None]) -> Any:
    """A transform that changes nothing, but calls a function with each tensordict of observations."""

    class Observer(_transform_class()):  # type: ignore[misc]
        def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
            note(tensordict_reset)
            return tensordict_reset

        def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
            note(next_tensordict)
            return next_tensordict

    return Observer()


def _transform_class() -> Any:
    return library("torchrl.envs", EXTRA).Transform


# ---- modules ----


def parts_of_sequence(module: Any) -> Iterable[Any] | None:
    """The modules of a sequence that only runs them in order. None for any other module."""
    sequences = library("tensordict.nn", EXTRA)
    is_plain = (
        isinstance(module, sequences.TensorDictSequential)
        and not isinstance(module, sequences.ProbabilisticTensorDictSequential)
        and type(module).forward is sequences.TensorDictSequential.forward
        and not getattr(module, "partial_tolerant", False)
        and all(type(hook).__name__ == SELECTION_OF_KEYS for hook in module._forward_hooks.values())
    )
    return module._module_iter() if is_plain else None


def recurrent_network(part: Any) -> Any:
    """The network in a recurrent module of TorchRL. None for any other module."""
    for base in type(part).__mro__:
        if base.__name__ in RECURRENT_NETWORKS and base.__module__.startswith("torchrl."):
            return getattr(part, RECURRENT_NETWORKS[base.__name__])
    return None


def move_specs_to_cpu(module: torch.nn.Module) -> None:
    """Move the action specs in a copy to the CPU. `Module.cpu()` does not move them."""
    for part in module.modules():
        if hasattr(getattr(part, "_spec", None), "to"):
            part._spec = part._spec.to("cpu")


def fill_multi_agent_networks(module: torch.nn.Module) -> None:
    """Fill the multi-agent networks in a copy with their parameters: one network per agent, or a shared one.

    The library swaps parameters into an empty network in each call, which cannot be captured.
    """
    for part in list(module.modules()):
        if any(base.__name__ == MULTI_AGENT_NETWORK for base in type(part).__mro__):
            _fill(part)


def _fill(part: Any) -> None:
    """Replace the attributes that the library's forward uses. The parameters are already in the networks."""
    params = part.params
    if part.share_params:
        part._empty_net = _filled(part._empty_net, params)
    else:
        networks = torch.nn.ModuleList(_filled(part._empty_net, params[agent]) for agent in range(part.n_agents))
        part.exploy_networks = networks
        _replace(part, "vmap_func_module", _each_agent_by_itself(networks))
    _replace(part, "params", _InPlace())


def _filled(empty: torch.nn.Module, params: Any) -> torch.nn.Module:
    network = own(empty)
    for key, value in params.items(True, True):
        *path, name = (key,) if isinstance(key, str) else key
        owner: Any = network.get_submodule(".".join(path))
        if name in vars(owner):
            delattr(owner, name)
        for registered in (owner._parameters, owner._buffers):
            registered.pop(name, None)
        owner.register_buffer(name, value.detach().clone())
    return network.eval()


def _replace(part: Any, name: str, value: Any) -> None:
    part._modules.pop(name, None)
    vars(part)[name] = value


class _InPlace:
    """A placeholder for parameters that are already in their network."""

    def to_module(self, *_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()


def _each_agent_by_itself(networks: Any) -> Callable[..., Any]:
    """A replacement for `vmap` over agents that runs one network after the other."""

    def run_all(_: Any, in_dims: Any = 0, out_dims: Any = 0, **__: Any) -> Callable[..., torch.Tensor]:
        along = in_dims[1] if isinstance(in_dims, tuple) else in_dims
        out = out_dims[0] if isinstance(out_dims, tuple) else out_dims

        def run(_: Any, inputs: torch.Tensor) -> torch.Tensor:
            parts = [inputs] * len(networks) if along is None else inputs.unbind(along)
            return torch.stack([network(part) for network, part in zip(networks, parts, strict=True)], dim=out)

        return run

    return run_all
