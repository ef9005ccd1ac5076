"""Caches torch's table of ONNX operators between exports. Building it takes a third of an export."""

import contextlib
import copy
import importlib
import threading
from collections.abc import Iterator
from typing import Any

import torch

_REGISTRATION = "torch.onnx._internal.exporter._registration"
_TORCHLIB = "torch.onnx._internal.exporter._torchlib._torchlib_registry"
_ONNXSCRIPT = "onnxscript.function_libs.torch_lib.registration"
_LOCK = threading.RLock()
_KEPT: dict[tuple[object, ...], tuple[tuple[int, ...], Any]] = {}


@contextlib.contextmanager
def kept_operator_table() -> Iterator[None]:
    """Make torch's exporter use a copy of the table that it built before for the same opset.

    A table is built again if the registered operators changed. A torch version without such a table, or with another
    way to build it, is not changed. Other threads wait.
    """
    with _LOCK, contextlib.ExitStack() as stack:
        try:
            registry = importlib.import_module(_REGISTRATION).ONNXRegistry
            original = registry.__dict__["from_torchlib"]
            _known_operators()
        except (ImportError, AttributeError, KeyError, TypeError):
            original = None
        if isinstance(original, classmethod):
            registry.from_torchlib = classmethod(_keeping(original.__func__))
            stack.callback(setattr, registry, "from_torchlib", original)
        yield


def has_onnx_form(target: object) -> bool:
    """Whether torch's exporter knows an ONNX form of an operator; True if it cannot be asked."""
    try:
        registry = importlib.import_module(_REGISTRATION).ONNXRegistry
        with kept_operator_table():
            return bool(registry.from_torchlib().is_registered(target))
    except (ImportError, AttributeError, KeyError, TypeError):
        return True


def _keeping(build: Any) -> Any:
    """A function that returns a cached table, and builds it only if needed."""

    def from_torchlib(cls: Any, *args: Any, **options: Any) -> Any:
        asked = (cls, args, tuple(options.items()))
        known, kept = _KEPT.get(asked, ((), None))
        if known != _known_operators():
            kept = build(cls, *args, **options)
            _KEPT[asked] = (
                _known_operators(),
                kept,
            )  # counted after the build, which registers the operators of onnxscript
        table = copy.copy(kept)
        table.functions = {target: list(forms) for target, forms in kept.functions.items()}
        return table

    return from_torchlib


def _known_operators() -> tuple[int, ...]:
    """What a table depends on besides its opset: the number of torch operators, and of those with an ONNX form."""
    of_torch = importlib.import_module(_TORCHLIB)._registry
    of_onnxscript = importlib.import_module(_ONNXSCRIPT).default_registry
    forms = sum(len(item.overloads) + len(item.complex) for item in of_onnxscript.values())
    return len(torch._C._dispatch_get_all_op_names()), len(of_torch), forms
