"""The root objects from which all other objects are found."""

import weakref

import torch

from exploy.environment.actor import unwrapped
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.module_globals import ModuleGlobals, globals_used_by
from exploy.live.reached_code import codes_reached_from

_known: dict[tuple[int, int], tuple[weakref.ref, weakref.ref, dict[str, ModuleGlobals]]] = {}


def live_objects(env: ExportableEnvironment, actor: torch.nn.Module, *, anew: bool = False) -> dict[str, object]:
    """The objects whose state the pipeline may read or write, by the first name of their paths.

    These are the environment, the actor, registered modules, and globals that the code of all objects uses which these
    lead to. The globals are looked for at the first call.

    Args:
        env: The environment.
        actor: The actor.
        anew: Look for globals again, because the environment may have got other objects.
    """
    modules = {f"module_{index}": module for index, module in enumerate(env.context_manager().modules)}
    inner = unwrapped(actor)
    objects = {"env": env, "actor": inner, **modules}
    return {**objects, **_globals(env, inner, objects, anew)}


def _globals(
    env: ExportableEnvironment, actor: torch.nn.Module, objects: dict[str, object], anew: bool
) -> dict[str, ModuleGlobals]:
    key = (id(env), id(actor))
    known = _known.get(key)
    if anew or known is None or known[0]() is not env or known[1]() is not actor:
        found = globals_used_by(codes_reached_from(objects))
        _known[key] = (weakref.ref(env, lambda _: _known.pop(key, None)), weakref.ref(actor), found)
        return found
    return known[2]
