"""One thread a process: the tests run in several, and small networks get slower by more threads."""

import os
from collections import Counter

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

_CHEAP = 1  # cases of a matrix that `make test` runs


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but the first case of a matrix to `make test-expensive`."""
    seen: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("matrix") is not None:
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if seen[name] > _CHEAP:
                item.add_marker("expensive")
