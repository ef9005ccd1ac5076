"""exploy: export a reinforcement-learning environment and its policy as one self-describing ONNX file."""

import importlib
from typing import TYPE_CHECKING, Any

from exploy.version import __version__

if TYPE_CHECKING:
    from exploy.diagnosis.check import check_environment
    from exploy.diagnosis.diagnosis import Diagnosis
    from exploy.diagnosis.finding import Finding, FindingKind, Severity
    from exploy.discovery.discover import discover
    from exploy.discovery.discovery import Discovery
    from exploy.driver.environment_export import export
    from exploy.driver.export_result import ExportResult
    from exploy.environment.actor import ExportableActor
    from exploy.environment.components import Connection, Group, Input, Memory, Output
    from exploy.environment.exportable_environment import ExportableEnvironment
    from exploy.environment.substitutes import substitute
    from exploy.runtime.controller import Controller
    from exploy.runtime.logs.recorder import Recorder
    from exploy.runtime.logs.replay import replay
    from exploy.verify.evaluator import evaluate
    from exploy.verify.session_wrapper import SessionWrapper

__all__ = [
    "Connection",
    "Controller",
    "Diagnosis",
    "Discovery",
    "ExportResult",
    "ExportableActor",
    "ExportableEnvironment",
    "Finding",
    "Group",
    "Input",
    "FindingKind",
    "Memory",
    "Output",
    "Recorder",
    "SessionWrapper",
    "Severity",
    "__version__",
    "check_environment",
    "discover",
    "evaluate",
    "export",
    "replay",
    "substitute",
]

_HOMES = {
    "Connection": "exploy.environment.components",
    "Controller": "exploy.runtime.controller",
    "Diagnosis": "exploy.diagnosis.diagnosis",
    "Discovery": "exploy.discovery.discovery",
    "ExportResult": "exploy.driver.export_result",
    "ExportableActor": "exploy.environment.actor",
    "ExportableEnvironment": "exploy.environment.exportable_environment",
    "Finding": "exploy.diagnosis.finding",
    "Group": "exploy.environment.components",
    "Input": "exploy.environment.components",
    "FindingKind": "exploy.diagnosis.finding",
    "Memory": "exploy.environment.components",
    "Output": "exploy.environment.components",
    "Recorder": "exploy.runtime.logs.recorder",
    "SessionWrapper": "exploy.verify.session_wrapper",
    "Severity": "exploy.diagnosis.finding",
    "check_environment": "exploy.diagnosis.check",
    "discover": "exploy.discovery.discover",
    "evaluate": "exploy.verify.evaluator",
    "export": "exploy.driver.environment_export",
    "replay": "exploy.runtime.logs.replay",
    "substitute": "exploy.environment.substitutes",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import exploy` works on a robot without torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'exploy' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"exploy.{name} needs {error.name}, which is not installed. Install it: pip install 'exploy[export]'."
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
