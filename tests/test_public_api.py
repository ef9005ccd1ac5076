"""The names that users import, and what happens to them on a machine without torch."""

import subprocess
import sys

import exploy
import exploy.runtime

ROOT_NAMES = [
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
RUNTIME_NAMES = ["Controller", "Fault", "Guard", "Guards", "Recorder", "load_log", "replay", "serve_rate"]


def test_the_names_of_the_root_are_these_and_all_can_be_had() -> None:
    assert sorted(exploy.__all__) == sorted(ROOT_NAMES)
    assert set(ROOT_NAMES) <= set(dir(exploy))
    for name in ROOT_NAMES:
        assert getattr(exploy, name) is getattr(exploy, name)


def test_the_names_of_the_runtime_are_these_and_all_can_be_had() -> None:
    assert sorted(exploy.runtime.__all__) == sorted(RUNTIME_NAMES)
    for name in RUNTIME_NAMES:
        assert getattr(exploy.runtime, name) is not None


def test_without_torch_the_runtime_works_and_the_rest_says_what_to_install() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(["torch", "onnx", "onnx_ir"]))
import exploy
from exploy import Controller, Recorder, replay
for name in ("export", "evaluate", "check_environment", "substitute", "Input", "ExportableEnvironment"):
    try:
        getattr(exploy, name)
    except ImportError as error:
        assert "pip install 'exploy[export]'" in str(error), error
    else:
        raise SystemExit(name)
print("done")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout.strip() == "done", result.stderr
