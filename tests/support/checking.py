"""A check that leaves out what takes long and has tests of its own: test_lowering.py and test_rare_changes.py."""

from typing import Any

import torch

import exploy
from exploy.diagnosis.pasting import is_code
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from tests.support.pasting import KINDS_THAT_PRINT_CODE


def check(env: ExportableEnvironment, actor: torch.nn.Module, *steps: int, **options: Any) -> exploy.Diagnosis:
    """Check an environment without lowering it, and with fewer steps in search of rare changes."""
    options = {"reset_within": 60, **options}
    diagnosis = exploy.check_environment(env, actor, *steps, lower=False, **options)
    assert_code_is_of_known_kinds(diagnosis)
    return diagnosis


def assert_code_is_of_known_kinds(diagnosis: exploy.Diagnosis) -> None:
    """Fail if a finding has code, and no test pastes the code of its kind."""
    unknown = {item.kind for item in diagnosis.findings if is_code(item.suggestion)} - KINDS_THAT_PRINT_CODE
    assert not unknown, f"paste a suggestion of {unknown} in test_faults.py, and add it to KINDS_THAT_PRINT_CODE"
