"""Makes the optimizer of torch's exporter compare constants exactly.

Its rules drop `+ 0` and `* 1`, and take everything within 1e-8 of 0 and within 1e-5 of 1 for these. A file would then
divide by zero where the code says `x / (x.norm() + 1e-8)`.
"""

import contextlib
import importlib
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

_MODULES = ("onnxscript.rewriter._matcher", "onnxscript.rewriter._ir_utils")
_EXACT = SimpleNamespace(**vars(math))
_EXACT.isclose = lambda one, two, **tolerances: bool(np.float32(one) == np.float32(two))


@contextlib.contextmanager
def exact_patterns() -> Iterator[None]:
    """Let a constant match a rule only if both are the same in float32.

    A release of onnxscript that compares constants elsewhere is not changed.
    """
    with contextlib.ExitStack() as stack:
        for name in _MODULES:
            with contextlib.suppress(ImportError):
                module: Any = importlib.import_module(name)
                if getattr(module, "math", None) is math:
                    module.math = _EXACT
                    stack.callback(setattr, module, "math", math)
        yield
