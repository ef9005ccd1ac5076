"""The tensors that a module keeps in its attributes, registered as buffers or not."""

from collections.abc import Iterator

import torch

from exploy.live.geometry import has_memory
from exploy.live.object_graph import instance_dict
from exploy.live.scripted_modules import script_attributes

_CONTAINERS_DEEP = 2


def tensors_kept_by(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """The tensors in attributes of a module and its submodules, and in their lists, tuples and dictionaries.

    Other objects are not entered, since a module may hold a reference to the environment.
    """
    for part in module.modules():
        compiled = script_attributes(part) if isinstance(part, torch.jit.ScriptModule) else {}
        for value in (*instance_dict(part).values(), *compiled.values()):
            yield from _tensors(value, _CONTAINERS_DEEP)


def _tensors(value: object, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if has_memory(value):
            yield value
    elif depth and isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors(item, depth - 1)
