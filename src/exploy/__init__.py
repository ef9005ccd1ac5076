"""exploy: one self-describing ONNX file from a reinforcement-learning environment and its policy."""

import importlib
from typing import TYPE_CHECKING, Any

from exploy.version import __version__

if TYPE_CHECKING:
    from exploy.diagnosis.check import check_environment
    from exploy.diagnosis.diagnosis import Diagnosis
    from exploy.diagnosis.finding import Finding, Kind, Severity

__all__ = ["Diagnosis", "Finding", "Kind", "Severity", "__version__", "check_environment"]

_HOMES = {
    "check_environment": "exploy.diagnosis.check",
    "Diagnosis": "exploy.diagnosis.diagnosis",
    "Finding": "exploy.diagnosis.finding",
    "Kind": "exploy.diagnosis.finding",
    "Severity": "exploy.diagnosis.finding",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first used, so that `import exploy` works on a robot without it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'exploy' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"exploy.{name} needs {error.name}, which is not installed: pip install 'exploy[export]'."
        ) from error
