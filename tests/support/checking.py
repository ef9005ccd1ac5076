"""A check that leaves out the conversion to ONNX, which tests/diagnosis/test_lowering.py is about."""

from typing import Any

import torch

import exploy
from exploy.exporter.core.exportable_environment import ExportableEnvironment


def check(env: ExportableEnvironment, actor: torch.nn.Module, *steps: int, **options: Any) -> exploy.Diagnosis:
    """Check an environment without lowering it."""
    return exploy.check_environment(env, actor, *steps, lower=False, **options)
