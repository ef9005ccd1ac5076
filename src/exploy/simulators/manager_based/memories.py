"""What the managers of an environment keep from one policy step to the next: actions, histories and delays."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

from exploy.environment.components import Memory
from exploy.errors import InvalidEnvironmentError
from exploy.simulators.manager_based.robot_ports import RobotPort

LAST_ACTIONS = {"_action": "actions", "_prev_action": "previous_actions", "_prev_prev_action": "actions_before_that"}


def action_memories(manager: Any) -> Iterator[RobotPort]:
    """The last actions: those of the manager, and the raw ones of each term."""
    for attribute, name in LAST_ACTIONS.items():
        if isinstance(getattr(manager, attribute, None), torch.Tensor):
            yield _memory(name, manager, attribute)
    for name in manager.active_terms:
        term = manager.get_term(name)
        if isinstance(getattr(term, "_raw_actions", None), torch.Tensor):
            yield _memory(f"actions.{name}", term, "_raw_actions")


def buffer_memories(manager: Any, groups: Collection[str]) -> Iterator[RobotPort]:
    """Histories and delays of the observations of some groups.

    Raises:
        InvalidEnvironmentError: If a delay is drawn at random.
    """
    for group, name, buffer in buffers(manager, "_group_obs_term_delay_buffer", groups):
        _require_one_delay(group, name, buffer)
        yield from _ring(f"delay.{group}.{name}", buffer._buffer)
        yield _memory(f"delay.{group}.{name}.lag", buffer, "_current_lags")
        yield _memory(f"delay.{group}.{name}.steps", buffer, "_step_count")
    for group, name, buffer in buffers(manager, "_group_obs_term_history_buffer", groups):
        yield from _ring(f"history.{group}.{name}", buffer)


def buffers(manager: Any, attribute: str, groups: Collection[str]) -> Iterator[tuple[str, str, Any]]:
    """The buffers that an observation manager keeps in an attribute, with their group and term."""
    for group in groups:
        for name, buffer in (getattr(manager, attribute, {}).get(group) or {}).items():
            yield group, name, buffer


def _ring(name: str, buffer: Any) -> Iterator[RobotPort]:
    yield _memory(f"{name}.frames", buffer, "_buffer")
    yield _memory(f"{name}.count", buffer, "_num_pushes")


def _memory(name: str, owner: Any, attribute: str) -> RobotPort:
    return RobotPort(Memory, name, fetch=_getter(owner, attribute))


def _getter(owner: Any, attribute: str) -> Callable[[], torch.Tensor]:
    def fetch() -> torch.Tensor:
        value: torch.Tensor = getattr(owner, attribute)
        return value

    return fetch


def _require_one_delay(group: str, name: str, buffer: Any) -> None:
    if buffer.min_lag != buffer.max_lag:
        raise InvalidEnvironmentError(
            f"The delay of the observation {name!r} in the group {group!r} is drawn at random, from {buffer.min_lag} "
            f"to {buffer.max_lag} steps; a file has one delay. Set delay_min_lag and delay_max_lag of the term to the "
            "same number before the environment is made: to 0 if the robot's own sensors are as late as that."
        )
