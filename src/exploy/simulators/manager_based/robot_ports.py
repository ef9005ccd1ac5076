"""Descriptions of components, from which they are made once it is known that the pipeline uses them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from exploy.environment.components import Group, Input, Memory, Output
from exploy.environment.context_manager import ContextManager


@dataclass(frozen=True)
class RobotPort:
    """An Input, Memory or Output that is not registered yet.

    Attributes:
        kind: The class of the component.
        name: Its full name.
        fetch: Returns the environment's own tensor.
        call: For an Input instead of `fetch`, the call by which the environment gets it.
        metadata: Metadata of the component.
        group: The group that the name begins with, if it has metadata of its own.
        group_metadata: Metadata of the group.
        is_computed: Whether the environment computes it from others, which a robot could give instead.
        instead_of: The name of the port that it can be given instead of; it is not used otherwise.
    """

    kind: type[Input | Memory | Output]
    name: str
    fetch: Callable[[], torch.Tensor] | None = None
    call: tuple[Any, ...] | None = None
    metadata: dict[str, Any] | None = None
    group: str | None = None
    group_metadata: dict[str, Any] | None = None
    is_computed: bool = False
    instead_of: str = ""

    def component(self, group: str | None = None) -> Input | Output:
        """Make the component, under its name within a group."""
        name = self.name if group is None else self.name.removeprefix(f"{group}.")
        if self.kind is Memory:
            assert self.fetch is not None
            return Memory(name, self.fetch)
        if self.kind is Output:
            assert self.fetch is not None
            return Output(name, self.fetch, self.metadata)
        return Input(name, self.fetch, self.metadata, call=self.call)


def live(owner: Any, attribute: str) -> Callable[[], torch.Tensor]:
    """A callback that returns the tensor which an attribute of an object holds at that time."""

    def fetch() -> torch.Tensor:
        value: torch.Tensor = getattr(owner, attribute)
        return value

    return fetch


def register(manager: ContextManager, ports: Iterable[RobotPort]) -> None:
    """Make and register components, in their groups. Those of a group that exists get its name, and are not in it.

    Raises:
        DuplicateNameError: If two of them have the same name.
    """
    groups: dict[str, list[RobotPort]] = {}
    known = set(manager.get_group_names())
    for port in ports:
        if port.group is None or port.group in known:
            manager.add_component(port.component())
        else:
            groups.setdefault(port.group, []).append(port)
    for name, members in groups.items():
        metadata = next((port.group_metadata for port in members if port.group_metadata is not None), None)
        manager.add_group(Group(name, [port.component(name) for port in members], metadata))
