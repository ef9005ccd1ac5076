"""The torch operators that a part of the pipeline calls, with their numbers, to tell when it does something else."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from exploy.live.location import UNKNOWN, calling_line
from exploy.live.snapshot import Snapshot

_OTHER = "another tensor"


class OperatorTrail(TorchDispatchMode):
    """Notes the operators that are called, their plain arguments, and which tensors they read from outside.

    `is_same` tells whether all `tokens` were those of an earlier run: then the same was computed. Otherwise, `where` is
    the line of the first operator that is new, and `random` names the first one that draws random numbers; both are
    UNKNOWN if there is none.

    Args:
        snapshot: Protects tensors before an operator writes to them.
        names: Names of known tensors by the address of their data. All other tensors from outside count as alike.
        earlier: The tokens of the earlier run.
    """

    def __init__(self, snapshot: Snapshot, names: Mapping[int, object], earlier: Sequence[object]):
        super().__init__()
        self.tokens: list[object] = []
        self.where = UNKNOWN
        self.random = UNKNOWN
        self._snapshot = snapshot
        self._names = names
        self._earlier = earlier
        self._is_same_so_far = True
        self._made: dict[int, torch.Tensor] = {}  # keeps them alive, so that no address is used twice

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # compilation is off in a trial, and the guard against it costs more than an operator

    @property
    def is_same(self) -> bool:
        """Whether the run was the same as the earlier one."""
        return self._is_same_so_far and len(self.tokens) == len(self._earlier)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note an operator and run it."""
        kwargs = kwargs or {}
        start = len(self.tokens)
        self.tokens.append(func)
        self._note(args)
        self._note(kwargs.values())
        if self._is_same_so_far and self.tokens[start:] != self._earlier[start : len(self.tokens)]:
            self._is_same_so_far = False
            self.where = calling_line()
        if not self._is_same_so_far and self.random == UNKNOWN and torch.Tag.nondeterministic_seeded in func.tags:
            self.random = f"{func} at {calling_line()}"
        if func._schema.is_mutable:
            self._protect((*args, *kwargs.values()))
        result = func(*args, **kwargs)
        for item in result if isinstance(result, list | tuple) else (result,):
            if isinstance(item, torch.Tensor):
                self._made[item.data_ptr()] = item
        return result

    def _note(self, arguments: Any) -> None:
        for item in arguments:
            if isinstance(item, torch.Tensor):
                address = item.data_ptr()
                self.tokens.append(None if address in self._made else self._names.get(address, _OTHER))
            elif isinstance(item, list | tuple):
                self._note(item)
            else:
                self.tokens.append(repr(item) if isinstance(item, float) else item)  # so that NaN is NaN

    def _protect(self, arguments: Any) -> None:
        for item in arguments:
            if isinstance(item, torch.Tensor):
                self._snapshot.protect(item)
            elif isinstance(item, list | tuple):
                self._protect(item)
