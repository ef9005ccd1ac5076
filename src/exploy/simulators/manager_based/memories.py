"""What the managers of an environment keep from one policy step to the next: actions, histories and delays."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch

from exploy.environment.components import Memory
from exploy.errors import InvalidEnvironmentError
from exploy.simulators.manager_based.robot_ports import RobotPort, live

DelayMemories = Callable[[str, str, Any], Iterable[RobotPort]]

LAST_ACTIONS = {"_action": "actions", "_prev_action": "previous_actions", "_prev_prev_action": "actions_before_that"}


def action_memories(manager: Any) -> Iterator[RobotPort]:
    """The last actions: those of the manager, and the raw ones of each term."""
    for attribute, name in LAST_ACTIONS.items():
        if isinstance(getattr(manager, attribute, None), torch.Tensor):
            yield memory(name, manager, attribute)
    for name in manager.active_terms:
        term = manager.get_term(name)
        if isinstance(getattr(term, "_raw_actions", None), torch.Tensor):
            yield memory(f"actions.{name}", term, "_raw_actions")
        if isinstance(getattr(term, "_prev_applied_actions", None), torch.Tensor):  # of moving averages
            yield memory(f"actions.{name}.applied", term, "_prev_applied_actions")


def buffer_memories(manager: Any, groups: Collection[str], delay_memories: DelayMemories) -> Iterator[RobotPort]:
    """Histories and delays of the observations of some groups.

    Args:
        manager: The observation manager.
        groups: The names of the groups.
        delay_memories: Returns what a delay of the simulator keeps, given its group, its term and its buffer.

    Raises:
        InvalidEnvironmentError: If a delay is drawn at random.
    """
    for group, name, buffer in buffers(manager, "_group_obs_term_delay_buffer", groups):
        yield from delay_memories(group, name, buffer)
    for group, name, buffer in buffers(manager, "_group_obs_term_history_buffer", groups):
        yield from ring_memories(f"history.{group}.{name}", buffer)


def modifier_memories(manager: Any, groups: Collection[str]) -> Iterator[RobotPort]:
    """What modifiers of observations keep, such as filters and integrals."""
    for group in groups:
        for term, cfg in zip(manager.active_terms[group], manager._group_obs_term_cfgs[group], strict=True):
            for number, modifier in enumerate(getattr(cfg, "modifiers", None) or ()):
                state = getattr(modifier.func, "__dict__", {})
                for name in [name for name, value in state.items() if isinstance(value, torch.Tensor)]:
                    yield memory(f"modifier.{group}.{term}.{number}.{name.strip('_')}", modifier.func, name)


def buffers(manager: Any, attribute: str, groups: Collection[str]) -> Iterator[tuple[str, str, Any]]:
    """The buffers that an observation manager keeps in an attribute, with their group and term."""
    for group in groups:
        for name, buffer in (getattr(manager, attribute, {}).get(group) or {}).items():
            yield group, name, buffer


def ring_memories(name: str, buffer: Any) -> Iterator[RobotPort]:
    """The frames of a ring buffer, and how many there were."""
    yield memory(f"{name}.frames", buffer, "_buffer")
    yield memory(f"{name}.count", buffer, "_num_pushes")


def memory(name: str, owner: Any, attribute: str) -> RobotPort:
    """A Memory that an attribute holds."""
    return RobotPort(Memory, name, fetch=live(owner, attribute))


def require_one_delay(name: str, shortest: int, longest: int, settings: str) -> None:
    """Refuse delays that are drawn at random.

    Raises:
        InvalidEnvironmentError: If the shortest delay is not the longest one.
    """
    if shortest != longest:
        raise InvalidEnvironmentError(
            f"The {name} is drawn at random, from {shortest} to {longest} steps; a file has one delay. Set {settings} "
            "to the same number before the environment is made: to 0 if the robot itself is as late as that."
        )
