"""One thread a process: the tests run in several, and small networks get slower by more threads."""

import importlib.metadata
import os
import signal
from collections import Counter

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # some tests import onnxruntime themselves
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and so would loops that should end by it

INSTALLED = {distribution.name.lower() for distribution in importlib.metadata.distributions()}
# Tests with a simulator run in its own venv (`make test-mjlab`). There, no test at all would be a failure.
collect_ignore = [f"simulators/{name}" for name in ("mjlab", "isaaclab") if name not in INSTALLED]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but the first case of a matrix, or as many as the marker says, to `make test-expensive`."""
    seen: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("matrix")
        if marker is not None:
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if seen[name] > (marker.args[0] if marker.args else 1):
                item.add_marker("expensive")
                item.add_marker("variant")
