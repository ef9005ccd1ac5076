"""All that depends on how TorchRL is written inside, and not on what it documents.

- Places in its source, a file and a function in it, whose calls of torch get an answer: `ANSWERED_CALLS`.
- Names of classes that are matched as texts: the sets and tables below. Other texts are public names beside what is
  done for them: `STAGES_BY_NAME` in transforms.py, single ones there and in modules.py.
- Private attributes and methods of transforms, such as `_call`, `_step` and `_parent`.
- Private attributes and methods of modules, such as `_empty_net` and `_module_iter`.

No other file of this folder uses a private name of TorchRL. Where a private name is gone, an AttributeError says so.
Where a place or a class has moved, nothing fails here: the capture refuses the policy later, or a transform is taken
for one that a user wrote. `tests/trainers/test_torchrl_internals.py` finds all of these with the installed TorchRL, and
says what to edit.
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

# Transforms by the names of their classes.
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
# Modules: the attribute of a recurrent one that holds its network, and others by the names of their classes.
RECURRENT_NETWORKS = {"LSTMModule": "lstm", "GRUModule": "gru"}
MULTI_AGENT_NETWORK = "MultiAgentNetBase"
SELECTION_OF_KEYS = "_OutKeysSelect"


# ---- calls of torch in TorchRL's source ----


@dataclass(frozen=True)
class AnsweredCall:
    """A call of torch in TorchRL's source that gets an answer instead of being run.

    Args:
        called: The function of torch.
        file: The file that calls it, by its path inside of torchrl.
        function: The qualified name of the function in it; `*.name` is a method of any class.
        answer: Gives the result from the arguments of the call.
    """

    called: Any
    file: str
    function: str
    answer: Callable[..., Any]

    def is_made_by(self, code: CodeType) -> bool:
        """Whether a function is the one that makes this call."""
        file, name = place_of(code)
        if self.function.startswith("*."):
            name = f"*.{name.rpartition('.')[2]}"
        return (file, name) == (self.file, self.function)


def place_of(code: CodeType) -> tuple[str, str]:
    """The path of a function's file inside of torchrl, and the function's qualified name."""
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
    AnsweredCall(torch.Tensor.__bool__, _SPECS, "*.rand", _no),  # no sample is out of range by rounding
    AnsweredCall(torch.Tensor.__bool__, _SPECS, "*.is_in", _no),  # projecting what is inside changes nothing
    AnsweredCall(torch.Tensor.__bool__, _SPECS, "*.project", _no),
    AnsweredCall(torch.Tensor.__bool__, _ACTORS, "DistributionalQValueModule._support_expected", _no),  # none above 0
    AnsweredCall(torch.multinomial, _SPECS, "*._project", _largest),  # of a vector that is one-hot already
    AnsweredCall(torch.Tensor.ge, _TRUNCATED_NORMAL, "TruncatedStandardNormal.__init__", _no_flags),  # bounds in order
    AnsweredCall(_DATA, _TRUNCATED_NORMAL, "TruncatedNormal.icdf", _itself),  # the same where there are no gradients
)


class CapturableCalls(TorchFunctionMode):
    """Runs functions of torch that TorchRL calls in a form that can be captured.

    Branches where one answer is right for all values get this answer, what compares constants is computed at once, and
    functions that a file cannot have are written otherwise. A branch of another version that is not known here is met
    by the capture, which refuses it.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch function, or what stands for it."""
        kwargs = kwargs or {}
        for call in ANSWERED_CALLS:
            if func == call.called and call.is_made_by(sys._getframe(1).f_code):
                return call.answer(*args, **kwargs)
        if func in _COMPARISONS and all(_is_constant(value) for value in (*args, *kwargs.values())):
            with _disable_current_modes():
                return func(*args, **kwargs)
        return _REWRITTEN.get(func, func)(*args, **kwargs)


def _is_constant(value: Any) -> bool:
    """Whether a value is known while the policy is captured, such as the bounds of actions."""
    return not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter)


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


# ---- copies of what belongs to a training run ----


def own(module: T) -> T:
    """A copy on the CPU in evaluation mode, in which tensors without data stay so.

    Multi-agent networks have such tensors, and transforms that take their values from an environment later.
    """
    with _NoDataStaysNoData():
        return own_copy(module)


def uninitialized(module: torch.nn.Module) -> list[str]:
    """The names of parameters and buffers that have no shape yet."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return [name for name, tensor in tensors if isinstance(tensor, _UNINITIALIZED)]


def peek(owner: Any, name: str) -> Any:
    """An attribute that the library may compute and keep; the object is afterwards as before. None if it fails."""
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
    """A copy without its environment, that has taken from there what it takes from there at its first use."""
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
    """Whether it does something else to steps than to observations."""
    return type(transform)._step is not _transform_class()._step


def works_by_tensor(transform: Any) -> bool:
    """Whether it is a function of single tensors; otherwise it is one of the tensordict."""
    return type(transform)._call is _transform_class()._call


def function_of_tensor(transform: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """What a transform does to a tensor: a method of the transform."""
    return transform._apply_transform  # type: ignore[no-any-return]


def function_of_tensordict(transform: Any) -> Callable[[Any], Any]:
    """What a transform does to a tensordict: a method of the transform."""
    return transform._call  # type: ignore[no-any-return]


def inverts_by_tensor(transform: Any) -> bool:
    """Whether its inverse is a function of single tensors; otherwise it is one of the tensordict."""
    return type(transform)._inv_call is _transform_class()._inv_call


def inverse_of_tensor(transform: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """What a transform does to a tensor on its way to the environment: a method of the transform."""
    return transform._inv_apply_transform  # type: ignore[no-any-return]


def inverse_of_tensordict(transform: Any) -> Callable[[Any], Any]:
    """What a transform does to a tensordict on its way to the environment: a method of the transform."""
    return transform._inv_call  # type: ignore[no-any-return]


def observer(note: Callable[[Any], None]) -> Any:
    """A transform that changes nothing, and calls a function with each tensordict of observations that it gets."""

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
    """The modules in a sequence that does nothing but to run them in their order; None if it is something else."""
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
    """The network in a recurrent module of TorchRL; None if it is another module."""
    for base in type(part).__mro__:
        if base.__name__ in RECURRENT_NETWORKS and base.__module__.startswith("torchrl."):
            return getattr(part, RECURRENT_NETWORKS[base.__name__])
    return None


def move_specs_to_cpu(module: torch.nn.Module) -> None:
    """Move the specs of actions in a copy, which are no tensors of the module, to the CPU."""
    for part in module.modules():
        if hasattr(getattr(part, "_spec", None), "to"):
            part._spec = part._spec.to("cpu")


def fill_multi_agent_networks(module: torch.nn.Module) -> None:
    """Give each agent of the multi-agent networks in a copy a network of its own, or all of them the shared one.

    The library swaps parameters into an empty network at each call, which cannot be captured.
    """
    for part in list(module.modules()):
        if any(base.__name__ == MULTI_AGENT_NETWORK for base in type(part).__mro__):
            _fill(part)


def _fill(part: Any) -> None:
    """What the library's own forward uses is replaced: the parameters are in the networks already."""
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
    """Stands for parameters that are in their network already."""

    def to_module(self, *_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()


def _each_agent_by_itself(networks: Any) -> Callable[..., Any]:
    """What `vmap` over agents gives, agent by agent."""

    def run_all(_: Any, in_dims: Any = 0, out_dims: Any = 0, **__: Any) -> Callable[..., torch.Tensor]:
        along = in_dims[1] if isinstance(in_dims, tuple) else in_dims
        out = out_dims[0] if isinstance(out_dims, tuple) else out_dims

        def run(_: Any, inputs: torch.Tensor) -> torch.Tensor:
            parts = [inputs] * len(networks) if along is None else inputs.unbind(along)
            return torch.stack([network(part) for network, part in zip(networks, parts, strict=True)], dim=out)

        return run

    return run_all
