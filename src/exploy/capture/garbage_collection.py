"""Keeps Python's search for garbage from slowing down work that makes many small objects."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """Put off the search for cyclic garbage; it goes on afterwards if it was on before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
