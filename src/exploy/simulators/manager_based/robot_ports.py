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
    """

    kind: type[Input | Memory | Output]
    name: str
    fetch: Callable[[], torch.Tensor] | None = None
    call: tuple[Any, ...] | None = None
    metadata: dict[str, Any] | None = None
    group: str | None = None
    group_metadata: dict[str, Any] | None = None

    def component(self) -> Input | Output:
        """Make the component, under its name within the group."""
        name = self.name if self.group is None else self.name.removeprefix(f"{self.group}.")
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
    """Make and register components, in their groups.

    Raises:
        DuplicateNameError: If two of them have the same name.
    """
    groups: dict[str, list[RobotPort]] = {}
    for port in ports:
        if port.group is None:
            manager.add_component(port.component())
        else:
            groups.setdefault(port.group, []).append(port)
    for name, members in groups.items():
        metadata = next((port.group_metadata for port in members if port.group_metadata is not None), None)
        manager.add_group(Group(name, [port.component() for port in members], metadata))
