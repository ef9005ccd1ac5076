"""Does with suggestions what a user does: pastes them."""

import torch

from exploy.diagnosis.diagnosis import Diagnosis
from exploy.exporter.core.actor import add_actor_memory
from exploy.exporter.core.components import Connection, Input, Memory, Output
from exploy.exporter.core.exportable_environment import ExportableEnvironment


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
