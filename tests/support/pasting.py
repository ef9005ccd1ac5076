"""Does with suggestions what a user does: pastes them.

`KINDS_THAT_PRINT_CODE` are the kinds of findings whose suggestion may be code; test_faults.py pastes one of each. A
check of tests/support/checking.py fails if a finding of another kind has code.
"""

import torch

from exploy.diagnosis.diagnosis import Diagnosis
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.exporter.core.actor import add_actor_memory
from exploy.exporter.core.components import Connection, Input, Memory, Output
from exploy.exporter.core.exportable_environment import ExportableEnvironment

KINDS_THAT_PRINT_CODE = {
    FindingKind.UNREGISTERED_INPUT, FindingKind.MISSING_MEMORY, FindingKind.STALE_CACHE, FindingKind.PYTHON_STATE,
    FindingKind.RANDOM, FindingKind.WRONG_NAMES, FindingKind.WRONG_DECIMATION, FindingKind.DETACHED,
    FindingKind.UNUSED,
}  # fmt: skip


def is_code(finding: Finding) -> bool:
    """Whether the suggestion of a finding has a line that is not a comment."""
    return any(not line.startswith("#") for line in finding.suggestion.splitlines())


def paste(diagnosis: Diagnosis, env: ExportableEnvironment, actor: torch.nn.Module) -> None:
    """Execute every suggested line; a component takes the place of one with its name."""
    scope = {
        "torch": torch, "env": env, "actor": actor,
        "Input": Input, "Memory": Memory, "Output": Output, "Connection": Connection,
        "add_actor_memory": add_actor_memory,
    }  # fmt: skip
    manager = env.context_manager()
    for line in (line for suggestion in diagnosis.suggestions for line in suggestion.splitlines()):
        if line.startswith(("Input(", "Memory(", "Output(", "Connection(")):
            component = eval(line, scope)
            manager.remove_component(component.name)
            manager.add_component(component)
        else:
            exec(line, scope)
