"""Follows functions that torch transforms, such as `torch.vmap(f)` and `torch.func.jacrev(f)`.

A recording cannot look into tensors that a transformation wraps. So a transformed function is recorded for itself,
below the transformation, and the ordinary operators that it consists of are then run on the arguments.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from exploy.capture.recording import Recording
from exploy.environment.exchanged_code import calls_replaced

_MAKERS = ("jacrev", "jacfwd", "hessian", "grad", "grad_and_value")


@contextlib.contextmanager
def transformations_followed(recording: Recording) -> Iterator[None]:
    """Follow `vmap`, and the derivatives that are made by functions of `torch.func` within the block."""

    def batched(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return _inlined(recording, original, args, kwargs)

    def made(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
        function = original(*args, **kwargs)
        return lambda *given, **named: _inlined(recording, function, given, named)

    with contextlib.ExitStack() as stack:
        stack.enter_context(calls_replaced(importlib.import_module("torch._functorch.vmap").vmap_impl, batched))
        for name in _MAKERS:
            stack.enter_context(calls_replaced(getattr(torch.func, name), made))
        yield


def _inlined(recording: Recording, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a transformed function, so that the recording sees its operators. Inner transformations are left alone."""
    if recording.is_inside_transformation or torch._C._functorch.peek_interpreter_stack() is not None:
        return function(*args, **kwargs)
    given, spec = tree_flatten((args, kwargs))
    positions = [position for position, item in enumerate(given) if isinstance(item, torch.Tensor)]
    tensors = [given[position] for position in positions]
    structure: list[Any] = []

    def flat(*values: torch.Tensor) -> list[Any]:
        items = list(given)
        for position, value in zip(positions, values, strict=True):
            items[position] = value
        inner_args, inner_kwargs = tree_unflatten(items, spec)
        results, result_spec = tree_flatten(function(*inner_args, **inner_kwargs))
        structure[:] = [result_spec]
        return results

    with recording.inside_transformation(), disable_proxy_modes_tracing():
        module = make_fx(torch.func.functionalize(flat), tracing_mode="real")(*tensors)
    with torch._C._DisableAutocast():  # its conversions are among the operators
        return tree_unflatten(list(_Inner(module).run(*tensors)), structure[0])


class _Inner(fx.Interpreter):
    """Runs the operators of a transformed function."""

    def __init__(self, module: fx.GraphModule):
        super().__init__(module)
        self.extra_traceback = False  # an error is that of the environment
