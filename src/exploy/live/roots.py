"""The objects that everything else is looked up from."""

import torch

from exploy.environment.actor import unwrapped
from exploy.environment.exportable_environment import ExportableEnvironment


def live_objects(env: ExportableEnvironment, actor: torch.nn.Module) -> dict[str, object]:
    """The objects whose state the pipeline may touch, by the name that their paths start with."""
    modules = {f"module_{index}": module for index, module in enumerate(env.context_manager().modules)}
    return {"env": env, "actor": unwrapped(actor), **modules}
