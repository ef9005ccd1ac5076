"""Keeps torch's table of ONNX operators from one export to the next: building it takes a third of an export."""

import contextlib
import copy
import importlib
import sys
from collections.abc import Iterator
from typing import Any

_KEPT: dict[tuple[object, ...], Any] = {}


@contextlib.contextmanager
def kept_operator_table() -> Iterator[None]:
    """Give torch's exporter a copy of the table that it built for the same opset before, while in here.

    A torch that builds its table in another way is left alone.
    """
    try:
        registry = importlib.import_module("torch.onnx._internal.exporter._registration").ONNXRegistry
        build = registry.__dict__["from_torchlib"].__func__
    except (ImportError, AttributeError, KeyError):
        yield
        return

    def from_torchlib(cls: Any, *args: Any, **options: Any) -> Any:
        asked = (cls, args, tuple(options.items()))
        kept = _KEPT.get((*asked, _registered_operators()))
        if kept is None:
            kept = build(cls, *args, **options)
            _KEPT[(*asked, _registered_operators())] = kept  # building registers those that onnxscript brings
        table = copy.copy(kept)
        table.functions = {target: list(forms) for target, forms in kept.functions.items()}
        return table

    registry.from_torchlib = classmethod(from_torchlib)
    try:
        yield
    finally:
        registry.from_torchlib = classmethod(build)


def _registered_operators() -> tuple[int, bool]:
    """What a table depends on besides its opset: how many operators are registered, and whether torchvision's are."""
    registration = sys.modules.get("onnxscript.function_libs.torch_lib.registration")
    registry = getattr(registration, "default_registry", None)
    return (0 if registry is None else sum(1 for _ in registry.values())), "torchvision" in sys.modules
