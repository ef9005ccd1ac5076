"""Records operators over lists of tensors, as `2 * tensordict` calls them, as one operator for each tensor."""

from collections.abc import Callable
from typing import Any

import torch

_PREFIX = "aten::_foreach_"

Dispatch = Callable[..., Any]


def recording_lists(mode: Any, dispatch: Dispatch) -> Dispatch:
    """What a recording mode does with an operator, if that may be one over lists of tensors.

    Args:
        mode: The mode.
        dispatch: What the mode does with other operators.
    """

    def dispatched(function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        single = _single(function)
        if single is None:
            return dispatch(function, types, args, kwargs)
        with mode:
            results = [
                single(*(_item(argument, number) for argument in args), **(kwargs or {}))
                for number in range(len(args[0]))
            ]
        return results if function._schema.returns else None

    return dispatched


def _single(function: Any) -> Any:
    """The operator that does the same for one tensor, or None."""
    name = function._schema.name
    return getattr(torch.ops.aten, name.removeprefix(_PREFIX), None) if name.startswith(_PREFIX) else None


def _item(argument: Any, number: int) -> Any:
    return argument[number] if isinstance(argument, list | tuple) else argument
