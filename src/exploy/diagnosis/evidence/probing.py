"""Finds the function that writes a tensor in a step of the environment, and the Python values at that time."""

import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from exploy.capture.program import FrozenTensor
from exploy.diagnosis.evidence.experiments import ABSENT, Experiments
from exploy.live.interception import functions_with, intercepted
from exploy.live.location import calling_code
from exploy.live.python_values import PythonValues, same_value

_MAX_LOOKS = 8


@dataclass(frozen=True)
class Probe:
    """A tensor that may be a cache, Python values that have changed since it was written, and who wrote it."""

    frozen: FrozenTensor
    values: tuple[tuple[str, object], ...]
    writer: types.CodeType | None = None


def probe(experiments: Experiments, suspects: list[FrozenTensor]) -> list[Probe]:
    """Make two real steps of the environment, and note the Python values when it writes frozen tensors.

    Raises:
        Exception: Any error that the environment raises.
    """
    writers = _writers(experiments, [frozen for frozen in suspects if frozen.live is None])
    if not writers:
        return []
    attr_paths = [frozen.name for frozen in suspects if frozen.name in writers]
    values = _values_on_entry(experiments, set(writers.values()), attr_paths)
    return [
        Probe(frozen, values[writers[frozen.name]], writers[frozen.name])
        for frozen in suspects
        if frozen.name in writers
    ]


def _writers(experiments: Experiments, suspects: list[FrozenTensor]) -> dict[str, types.CodeType]:
    """The function that last wrote each tensor in a step of the environment, if it was written with torch."""
    if not suspects:
        return {}
    with WriteLog() as log:
        experiments.step()
    found = {}
    for frozen in suspects:
        live = experiments.live(frozen)
        code = log.writer(live) if isinstance(live, torch.Tensor) else None
        if code is not None:
            found[frozen.name] = code
    return found


def _values_on_entry(
    experiments: Experiments, codes: set[types.CodeType], attr_paths: list[str]
) -> dict[types.CodeType, tuple[tuple[str, object], ...]]:
    """Plain Python values at the first calls of some functions in a step that have changed after the step.

    Paths in `attr_paths` that do not exist at a call are included as ABSENT.
    """
    start = PythonValues(experiments.roots)
    moments: dict[types.CodeType, list[dict[str, object]]] = {code: [] for code in codes}

    def look(code: types.CodeType) -> None:
        if code in codes and len(moments[code]) < _MAX_LOOKS:
            gone = {attr_path: ABSENT for attr_path in attr_paths if not experiments.has(attr_path)}
            moments[code].append(start.changed() | gone)

    with intercepted(functions_with(codes), look, lambda code: None):
        experiments.step()
    end = start.values | start.changed()
    return {code: _others(start.values, seen, end) for code, seen in moments.items()}


def _others(
    start: dict[str, object], moments: list[dict[str, object]], end: dict[str, object]
) -> tuple[tuple[str, object], ...]:
    """Paths and values at some moments that differ from those at the end; numpy arrays are left out."""
    found = [
        (attr_path, value)
        for moment in moments
        for attr_path, value in (start | moment).items()
        if not isinstance(value, np.ndarray) and (attr_path not in end or not same_value(end[attr_path], value))
    ]
    return tuple(dict.fromkeys(found))


def overwritten(tensor: object) -> torch.Tensor | None:
    """Overwrite a tensor with a value that it does not have, and return a copy of that value.

    Numbers get an implausible value, and integers a neighbour of theirs, because they may be indices.
    """
    if not isinstance(tensor, torch.Tensor):
        return None
    spoilt = _another_value(tensor)
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())  # it may be expanded
    tensor[once].copy_(spoilt[once])
    return spoilt


def _another_value(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.bool:
        return ~tensor
    if tensor.is_floating_point() or tensor.is_complex():
        return torch.full_like(tensor, 77)
    return torch.where(tensor > 0, tensor - 1, tensor + 1)


@dataclass
class _Write:
    code: types.CodeType
    tensor: torch.Tensor


class WriteLog(TorchDispatchMode):
    """Notes for each tensor storage the user function that wrote it last."""

    def __init__(self) -> None:
        super().__init__()
        self._writes: dict[int, _Write] = {}

    def writer(self, tensor: torch.Tensor) -> types.CodeType | None:
        """The function that wrote the storage of a tensor last; None if no function of user code did."""
        write = self._writes.get(tensor.untyped_storage().data_ptr())
        return None if write is None else write.code

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and note the tensors that it created or wrote."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        code = calling_code()
        if code is not None:
            for tensor in (*_made(func, result), *_written(func, args, kwargs)):
                self._writes[tensor.untyped_storage().data_ptr()] = _Write(code, tensor)
        return result


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [item for item in tree_iter(tree) if isinstance(item, torch.Tensor)]


def _made(func: Any, result: Any) -> list[torch.Tensor]:
    is_view = any(item.alias_info is not None for item in func._schema.returns)
    return [] if is_view else _tensors(result)


def _written(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    schema = func._schema.arguments
    given = [*zip(schema, args, strict=False), *((item, kwargs[item.name]) for item in schema if item.name in kwargs)]
    return [
        tensor
        for argument, value in given
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in _tensors(value)
    ]
