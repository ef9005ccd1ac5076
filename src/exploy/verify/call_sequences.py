"""Sequences of calls with random data, made from the calls that an environment makes."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter, tree_map_only

from exploy.capture.perturbation import around
from exploy.environment.substitutes import Substitute
from exploy.live.geometry import Geometry, has_memory
from exploy.live.object_graph import is_a, walk
from exploy.live.substituted import substituted
from exploy.verify.watched_calls import WatchedCall, functions_of

_CALLS_OF_A_SEQUENCE = 16
_MOST_SUBJECTS = 16
_NO_OBJECTS = (bool, int, float, str, type(None), torch.Tensor, np.ndarray)


@dataclass(frozen=True)
class Subject:
    """What is tried together: the calls of one instance of a class, or all calls of a function."""

    substitute: Substitute
    calls: tuple[WatchedCall, ...]

    @property
    def roots(self) -> dict[str, object]:
        """The objects among the arguments, whose state the calls may read and change."""
        if self.calls[0].receiver is not None:
            return {"self": self.calls[0].receiver}
        named = [
            item
            for call in self.calls
            for item in (*((f"args[{index}]", value) for index, value in enumerate(call.args)), *call.kwargs.items())
        ]
        return {name: value for name, value in named if not is_a(value, _NO_OBJECTS)}

    @property
    def instances(self) -> list[object]:
        """The instances of the replaced class that the calls may use; none if no class is replaced."""
        owner = self.substitute.owner
        return [] if owner is None else [item for _, item in walk(self.roots, closures=True) if is_a(item, owner)]

    def sequence(self, generator: torch.Generator) -> list[WatchedCall]:
        """The watched calls, then others in random order."""
        missing = _CALLS_OF_A_SEQUENCE - len(self.calls)
        return [*self.calls, *self.random_calls(missing, generator)]

    def random_calls(self, count: int, generator: torch.Generator) -> list[WatchedCall]:
        """Some of the watched calls, and calls of `random_call`, in random order."""
        calls, item = [], self.substitute
        for _ in range(count):
            call = self.calls[_chosen(len(self.calls), generator)]
            if item.random_call is not None and _chosen(2, generator):
                name, *args = item.random_call(call.receiver, generator)
                call = WatchedCall(item, name, functions_of(item)[name], (call.receiver, *args), {})
            calls.append(call)
        return calls


def subjects_of(substitute: Substitute, calls: list[WatchedCall]) -> list[Subject]:
    """The subjects of a substitute: one for each instance of a class. Those that are called alike count as one."""
    groups: dict[int, list[WatchedCall]] = {}
    for call in calls:
        groups.setdefault(id(call.receiver), []).append(call)
    alike = {
        (type(group[0].receiver), *sorted({call.signature for call in group})): Subject(substitute, tuple(group))
        for group in groups.values()
    }
    return list(alike.values())[:_MOST_SUBJECTS]


def with_random_arguments(call: WatchedCall, generator: torch.Generator) -> WatchedCall:
    """The same call with other floats and flags among its arguments. Integers, such as indices, are kept."""

    def vary(tensor: torch.Tensor) -> torch.Tensor:
        is_varied = tensor.is_floating_point() or tensor.dtype == torch.bool
        return varied(tensor, generator) if is_varied else tensor

    args, kwargs = tree_map_only(torch.Tensor, vary, (call.args, call.kwargs))
    return dataclasses.replace(call, args=args, kwargs=kwargs)


def varied(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random values around those of a tensor. Rows of length 1, such as quaternions, get any direction and keep it."""
    value = around(tensor, generator).to(tensor.device)
    if not value.is_floating_point() or value.dim() == 0:
        return value
    directions = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
    directions = directions / torch.linalg.vector_norm(directions, dim=-1, keepdim=True)
    return torch.where(_is_direction(tensor), directions, value)


def _is_direction(tensor: torch.Tensor) -> torch.Tensor:
    """Whether each row has length 1; one number is no direction."""
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return torch.zeros((*tensor.shape[:-1], 1), dtype=torch.bool, device=tensor.device)
    lengths: torch.Tensor = torch.linalg.vector_norm(tensor.double(), dim=-1, keepdim=True)
    return (lengths - 1).abs() < 1e-4


def read_by_replacement(subject: Subject) -> list[torch.Tensor]:
    """The floats of the state that a replacement reads, as it reads them: slices as well as what they are of.

    The state is changed by the calls. An error ends them.
    """
    reads = _Reads()
    own: set[int] = set()
    with substituted([subject.substitute], among=subject.instances):
        for call in subject.calls:
            args, kwargs = call.copied_arguments()
            own |= {_address(item) for item in _tensors((args, kwargs))}
            try:
                with reads:
                    call.function(*args, **kwargs)
            except Exception:
                break  # the comparison reports it
    return _apart([item.detach() for item in reads.found if item.is_floating_point() and _address(item) not in own])


def _apart(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Leave out tensors that share memory with earlier ones, but for directions in them: the quaternion of a pose."""
    kept: list[torch.Tensor] = []
    for tensor in tensors:
        others = [item for item in kept if Geometry.of(item).overlaps(Geometry.of(tensor))]
        are_directions = bool(_is_direction(tensor).all()) and not any(
            bool(_is_direction(item).all()) for item in others
        )
        if not others or are_directions:
            kept.append(tensor)
    return kept


class _Reads(TorchFunctionMode):
    """Notes the tensors that torch functions get and that none of them has made."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, torch.Tensor] = {}  # kept, so that their memory is not used again
        self.found: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note the tensors among the arguments, then call the function."""
        self.found += [item for item in _tensors((args, kwargs)) if _address(item) not in self._made]
        known = {_address(item) for item in self.found}
        result = func(*args, **(kwargs or {}))
        self._made |= {_address(item): item for item in _tensors(result) if _address(item) not in known}
        return result


def _tensors(arguments: Any) -> Iterator[torch.Tensor]:
    return (item for item in tree_iter(arguments) if isinstance(item, torch.Tensor) and has_memory(item))


def _address(tensor: torch.Tensor) -> int:
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage().data_ptr()


def _chosen(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))
