"""Does with suggestions what a user does: pastes them.

`KINDS_THAT_PRINT_CODE` are the kinds of findings whose suggestion may be code; test_faults.py pastes one of each. A
check of tests/support/checking.py fails if a finding of another kind has code.
"""

import torch

from exploy.diagnosis import pasting
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.diagnosis.finding import FindingKind
from exploy.exporter.core.exportable_environment import ExportableEnvironment

KINDS_THAT_PRINT_CODE = {
    FindingKind.UNREGISTERED_INPUT, FindingKind.MISSING_MEMORY, FindingKind.STALE_CACHE, FindingKind.PYTHON_STATE,
    FindingKind.RANDOM, FindingKind.WRONG_NAMES, FindingKind.WRONG_DECIMATION, FindingKind.DETACHED,
    FindingKind.UNUSED,
}  # fmt: skip


def paste(diagnosis: Diagnosis, env: ExportableEnvironment, actor: torch.nn.Module) -> None:
    """Execute every suggested line; a component takes the place of one with its name."""
    for suggestion in diagnosis.suggestions:
        pasting.paste(suggestion, env, actor)
