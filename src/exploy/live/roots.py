"""The root objects from which all other objects are found."""

import torch

from exploy.environment.actor import unwrapped
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.module_globals import globals_read_by


def live_objects(env: ExportableEnvironment, actor: torch.nn.Module) -> dict[str, object]:
    """The objects whose state the pipeline may read or write, by the first name of their paths."""
    modules = {f"module_{index}": module for index, module in enumerate(env.context_manager().modules)}
    inner = unwrapped(actor)
    return {"env": env, "actor": inner, **modules, **globals_read_by((type(env), type(inner)))}
