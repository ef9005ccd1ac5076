"""Gives evaluation hooks to an environment, in the way that its method takes them."""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

from exploy.environment.exportable_environment import ExportableEnvironment


def register_hooks(
    env: ExportableEnvironment,
    update: Callable[[], None],
    reset: Callable[[], None],
    evaluate_substep: Callable[[int], None],
) -> None:
    """Register hooks with an environment, by the signature of its method: all three, or all but `reset`.

    Parameters with the documented names get the hooks of these names, in any order and also by keyword. With other
    names, a method that needs two arguments gets the first and the last hook.
    """
    register: Callable[..., None] = env.register_evaluation_hooks
    hooks = {"update": update, "reset": reset, "evaluate_substep": evaluate_substep}
    args, kwargs = _arguments_for(register, hooks)
    register(*args, **kwargs)


def _arguments_for(register: Callable[..., None], hooks: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    try:
        parameters = inspect.signature(register).parameters.values()
    except (TypeError, ValueError):
        return list(hooks.values()), {}
    given = getattr(register, "keywords", {})  # of a functools.partial
    by_place = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    by_name = {item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)}
    named = {name: hook for name, hook in hooks.items() if name in by_name and name not in given}
    if {"update", "evaluate_substep"} <= named.keys():
        leading = list(itertools.takewhile(lambda name: name in named, (item.name for item in by_place)))
        return [named.pop(name) for name in leading], named
    kinds = {item.kind for item in parameters}
    if not by_place and kinds == {inspect.Parameter.VAR_KEYWORD}:
        return [], hooks
    needed = [item for item in by_place if item.default is item.empty]
    takes_two = 2 in (len(by_place), len(needed)) and inspect.Parameter.VAR_POSITIONAL not in kinds
    return [hook for name, hook in hooks.items() if not takes_two or name != "reset"], {}
