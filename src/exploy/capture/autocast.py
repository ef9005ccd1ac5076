"""Records the conversions that `torch.autocast("cpu")` makes, which happen below the level that is recorded.

Torch decides for each operator which arguments to convert. So an operator is run once to see that. Then the conversions
are recorded, and the operator without autocast.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from exploy.errors import CaptureError, DataDependentError
from exploy.live.location import calling_line

_aten = torch.ops.aten
_ENTER_AND_EXIT = (torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast)

Dispatch = Callable[..., Any]


def require_no_autocast() -> None:
    """Require that autocast is off where an export begins.

    Raises:
        CaptureError: If it is on, because the file would be made and checked under it as well.
    """
    if torch.is_autocast_enabled("cpu"):
        raise CaptureError(
            "The export was started inside of torch.autocast(). Start it outside, and use torch.autocast() in the code "
            "of the environment or actor that needs it, for example in forward()."
        )


def marks_autocast(target: object) -> bool:
    """Whether a node of a recording marks where autocast begins or ends. It computes nothing."""
    return target in _ENTER_AND_EXIT


def recording_conversions(mode: Any, dispatch: Dispatch) -> Dispatch:
    """What a recording mode does with an operator, if conversions by autocast are to be recorded.

    Args:
        mode: The mode.
        dispatch: What the mode does with an operator without autocast.
    """

    def dispatched(function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not torch.is_autocast_enabled("cpu") or function._schema.is_mutable:
            return dispatch(function, types, args, kwargs)
        if function is _aten.mkldnn_rnn_layer.default:
            _refuse("an LSTM")
        if not _is_listed(function):
            is_affected = _is_affected(function, args, kwargs)
            return _in_parts(mode, function, args, kwargs) if is_affected else dispatch(function, types, args, kwargs)
        seen = _conversions(function, args, kwargs)

        def converted(item: Any) -> Any:
            dtype = seen.of(item)
            return item if dtype is None else dispatch(_aten.to.dtype, types, (item, dtype), {})

        with torch._C._DisableAutocast():
            args, kwargs = tree_map(converted, (args, kwargs))
            return dispatch(function, types, args, kwargs)

    return dispatched


class _Conversions(TorchDispatchMode):
    """Notes the tensors that are converted while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[tuple[torch.Tensor, torch.dtype]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run an operator; note it if it converts a tensor."""
        result = func(*args, **(kwargs or {}))
        if func is _aten._to_copy.default and result.dtype != args[0].dtype:
            self._found.append((args[0], result.dtype))
        return result

    @property
    def dtypes(self) -> list[torch.dtype]:
        """The new dtypes, in order."""
        return [dtype for _, dtype in self._found]

    def of(self, item: object) -> torch.dtype | None:
        """The dtype that a tensor was converted to; None if it was not."""
        return next((dtype for tensor, dtype in self._found if tensor is item), None)


def _conversions(function: Any, args: Any, kwargs: Any) -> _Conversions:
    """Run an operator and return what is converted, without the cache of autocast, which would hide some."""
    found = _Conversions()
    cache = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with found, torch.random.fork_rng(devices=()):
            function(*args, **kwargs)
    finally:
        torch.set_autocast_cache_enabled(cache)
    return found


def _is_listed(function: Any) -> bool:
    """Whether autocast converts the arguments of an operator, and not those of operators that it consists of."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "AutocastCPU")


def _is_affected(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether autocast converts something inside of an operator."""
    seen = _conversions(function, args, kwargs).dtypes
    if not seen:
        return False
    with torch._C._DisableAutocast():
        return seen != _conversions(function, args, kwargs).dtypes


def _in_parts(mode: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """Record the operators that an operator consists of."""
    with mode:
        result = function.decompose(*args, **kwargs)
    if result is NotImplemented:
        _refuse(str(function))
    return result


def _refuse(what: str) -> NoReturn:
    raise DataDependentError(
        f"{calling_line()}: torch.autocast() converts values inside of {what}, which a file cannot express. Switch it "
        'off for this call: with torch.autocast("cpu", enabled=False).'
    )
