"""Pauses Python's garbage collector, which slows down code that creates many small objects."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """Disable the cyclic garbage collector; enable it again afterwards if it was enabled before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
