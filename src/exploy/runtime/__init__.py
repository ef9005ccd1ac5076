"""Runs exported files with numpy and onnxruntime only."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exploy.errors import Fault, Guard
    from exploy.runtime.controller import Controller
    from exploy.runtime.guards.guards import Guards
    from exploy.runtime.logs.formats import load_log
    from exploy.runtime.logs.recorder import Recorder
    from exploy.runtime.logs.replay import replay
    from exploy.runtime.loop import serve_rate

_HOMES = {
    "Controller": "exploy.runtime.controller",
    "Fault": "exploy.errors",
    "Guard": "exploy.errors",
    "Guards": "exploy.runtime.guards.guards",
    "Recorder": "exploy.runtime.logs.recorder",
    "load_log": "exploy.runtime.logs.formats",
    "replay": "exploy.runtime.logs.replay",
    "serve_rate": "exploy.runtime.loop",
}

__all__ = ["Controller", "Fault", "Guard", "Guards", "Recorder", "load_log", "replay", "serve_rate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
