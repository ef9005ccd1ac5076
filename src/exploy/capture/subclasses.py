"""Follows subclasses of torch.Tensor: a recording knows only the tensors that they are made of.

A subclass that shares its memory with a tensor is replaced by that tensor where an operator is recorded. A subclass
that computes by itself (`__torch_dispatch__`) is asked what to compute, and that is recorded.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import _get_overloaded_args
from torch.utils._pytree import tree_iter, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from exploy.environment.tensor_copies import as_plain, computes_by_itself
from exploy.errors import DataDependentError
from exploy.live.geometry import Geometry, has_memory
from exploy.live.location import calling_line

Dispatch = Callable[..., Any]


class PlainTensors:
    """Finds the recorded tensor that a tensor of a subclass shares its memory with."""

    def __init__(self) -> None:
        self._recorded: dict[Any, torch.Tensor] = {}
        self._outside = WeakIdKeyDictionary()

    def note(self, tensor: torch.Tensor) -> None:
        """Remember a recorded tensor."""
        self._recorded[Geometry.of(tensor)] = tensor

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The recorded tensor at the same place, or a plain tensor with the same memory; a plain tensor itself."""
        if not is_subclass(tensor) or computes_by_itself(tensor):
            return tensor
        recorded = self._recorded.get(Geometry.of(tensor))
        if recorded is not None:
            return recorded
        if tensor not in self._outside:
            self._outside[tensor] = as_plain(tensor)
        plain: torch.Tensor = self._outside[tensor]
        return plain

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function with plain tensors. Where it returns one of them, the tensor of the subclass is returned."""
        replaced: list[tuple[torch.Tensor, torch.Tensor]] = []

        def replace(item: Any) -> Any:
            plain = self.of(item) if isinstance(item, torch.Tensor) else item
            if plain is not item:
                replaced.append((plain, item))
            return plain

        args, kwargs = tree_map(replace, (args, kwargs))
        result = function(*args, **kwargs)
        return next((item for plain, item in replaced if plain is result), result)


def is_subclass(item: object) -> bool:
    """Whether something is a tensor of a class that torch does not record as it is."""
    return isinstance(item, torch.Tensor) and type(item) not in (torch.Tensor, torch.nn.Parameter)


def classes_to_ask(items: list[Any]) -> tuple[type, ...]:
    """The classes of tensors that define what functions do with them (`__torch_function__`), in the order of torch."""
    if not any(map(is_subclass, items)) or not torch._C._is_torch_function_enabled():
        return ()
    return tuple(map(type, _get_overloaded_args([item for item in items if isinstance(item, torch.Tensor)])))


def call_by_classes(kinds: tuple[type, ...], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Let the classes of tensors call a function.

    Raises:
        TypeError: If none of them can.
    """
    for kind in kinds:
        result = kind.__torch_function__(function, kinds, args, kwargs)  # type: ignore[attr-defined]
        if result is not NotImplemented:
            return result
    names = ", ".join(kind.__name__ for kind in kinds)
    raise TypeError(f"no implementation of {function.__name__} for tensors of {names}")


def recording_subclasses(recording: Any, mode: Any, dispatch: Dispatch) -> Dispatch:
    """What a recording mode does with an operator, for tensors of all classes.

    Args:
        recording: The recording.
        mode: The mode.
        dispatch: What the mode does with an operator of plain tensors.
    """

    def dispatched(function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = [item for item in tree_iter((args, kwargs)) if is_subclass(item)]
        deciding = next((type(item) for item in found if computes_by_itself(item)), None)
        if deciding is not None:
            with mode:
                return _decided(recording, deciding, function, args, kwargs)
        if not found:
            return dispatch(function, types, args, kwargs)
        return recording.plain.call(lambda *given, **named: dispatch(function, types, given, named), args, kwargs)

    return dispatched


def _decided(recording: Any, kind: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """What a class that computes by itself returns for an operator, or for those that the operator consists of.

    Raises:
        DataDependentError: If it computes from traced values where a recording cannot see it.
    """
    if torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CompositeImplicitAutograd"):
        result = function.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
    given = [item for item in tree_iter((args, kwargs)) if isinstance(item, torch.Tensor)]
    with recording.guard:
        result = kind.__torch_dispatch__(function, tuple({type(item): None for item in given}), args, kwargs)
    made = [item for item in tree_iter(result) if isinstance(item, torch.Tensor) and has_memory(item)]
    is_traced = any(has_memory(item) and recording.depends_on_arguments(item) for item in given)
    if is_traced and not all(recording.depends_on_arguments(item) for item in made):
        raise DataDependentError(
            f"{calling_line()}: {kind.__name__}.__torch_dispatch__() computes {function} where a recording cannot see "
            "it. Let it call the operator with plain tensors, or use plain tensors here."
        )
    return result
