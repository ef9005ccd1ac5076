"""Manages components for environment export.

The ContextManager holds all Inputs, Outputs, Memories, Groups and Connections of an environment. It rejects
names that would conflict in the exported file.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from exploy.environment.called_values import values_replaced
from exploy.environment.components import Connection, Constant, Group, Input, Memory, Output, TensorCallback, describe
from exploy.environment.substitutes import Substitute, require_no_overlap
from exploy.errors import ComponentError, DuplicateNameError, ReservedNameError
from exploy.tables import Table

__all__ = ["Connection", "ContextManager", "Group", "Input", "Memory", "Output"]

_RESERVED_NAMES = frozenset({"actions", "obs"})
_RESERVED_PREFIXES = ("ctx.", "memory.")

Component = Input | Output
StateGetter = Callable[[], tuple[torch.Tensor, ...] | None]


class ContextManager:
    """Manages all components (inputs, outputs, memory) for an environment export."""

    def __init__(self) -> None:
        self._components: dict[str, Component] = {}
        self._groups: dict[str, Group] = {}
        self._connections: dict[str, Connection] = {}
        self._constants: dict[str, Constant] = {}
        self._modules: list[torch.nn.Module] = []
        self._stateless: list[StateGetter] = []
        self._substitutes: list[Substitute] = []

    def __str__(self) -> str:
        table = Table("", "name", "shape and type", "metadata")
        components: list[Component] = [*self.get_input_components(), *self.get_output_components()]
        items = list(dict.fromkeys(components))
        for item in items:
            table.rows.append((type(item).__name__, item.name, _shape_of(item), str(item.metadata or "")))
        table.rows += [("Connection", name, "", "") for name in self._connections]
        table.rows += [("constant", name, "", "") for name in self._constants]
        table.rows += [("substitute", str(item), "", "") for item in self._substitutes]
        return f"{len(items)} components, {len(self._modules)} modules\n{table}" if table.rows else "no components"

    def add_component(self, component: Input | Output | Connection) -> None:
        """Add an Input, Output, Memory or Connection.

        Raises:
            DuplicateNameError: If its name is already used. Is also an AssertionError and a KeyError.
            ReservedNameError: If the name is reserved by the file format.
        """
        self.add_components([component])

    def add_components(self, components: Iterable[Input | Output | Connection]) -> None:
        """Add several components. After an error, none of them is added.

        Raises:
            DuplicateNameError: If any name is already used or given twice.
            ReservedNameError: If a name is reserved by the file format.
        """
        self._commit(_Additions.of_components(components))

    def add_group(self, group: Group) -> None:
        """Add a group with all its items and nested groups. After an error, nothing is added.

        Raises:
            DuplicateNameError: If the name of the group or of an item is already used.
            ReservedNameError: If a name is reserved by the file format.
        """
        if not isinstance(group, Group):
            raise ComponentError(f"add_group() takes a Group, got {type(group).__name__}.")
        self._commit(_Additions.of_group(group))

    def get_group_names(self) -> list[str]:
        """The full names of all groups."""
        return list(self._groups)

    def add_constant(self, name: str, callback: TensorCallback) -> None:
        """Declare a tensor as a constant: the file stores its value at export.

        `check_environment()` and the export then report no finding for it. The file lists it under this name.

        Args:
            name: Name of the constant.
            callback: Returns the environment's own tensor, such as `lambda: env.gains`.

        Raises:
            DuplicateNameError: If the name is already used.
        """
        self.assert_unique_name(name)
        constant = Constant(name, callback)
        constant.join(())
        self._constants[name] = constant

    def get_constants(self) -> list[Constant]:
        """All declared constants."""
        return list(self._constants.values())

    def add_substitute(self, substitute: Substitute) -> None:
        """Let code that can be captured stand for code that cannot; see `exploy.substitute()`.

        Raises:
            ComponentError: If it is no substitute, or replaces a function that another one replaces.
        """
        if not isinstance(substitute, Substitute):
            raise ComponentError(
                f"add_substitute() takes the result of exploy.substitute(…), got {type(substitute).__name__}."
            )
        require_no_overlap(self._substitutes, substitute)
        self._substitutes.append(substitute)

    def add_substitutes(self, substitutes: Iterable[Substitute]) -> None:
        """Add several substitutes, such as the ready ones of `exploy.simulators`. After an error, none is added.

        Raises:
            ComponentError: See `add_substitute()`.
        """
        known = list(self._substitutes)
        try:
            for item in substitutes:
                self.add_substitute(item)
        except BaseException:
            self._substitutes[:] = known
            raise

    @property
    def substitutes(self) -> tuple[Substitute, ...]:
        """All substitutes, in the order of their registration."""
        return tuple(self._substitutes)

    def add_stateless_actor(self, get_state: StateGetter) -> None:
        """Remember an actor that has no state to register. A capture asks again, and raises if it has state then."""
        self._stateless.append(get_state)

    @property
    def stateless_actors(self) -> tuple[StateGetter, ...]:
        """The functions that return the state of actors that had none when they were added."""
        return tuple(self._stateless)

    def remove_component(self, name: str) -> None:
        """Remove an Input, Output or Memory by its full name. Does nothing if it does not exist."""
        self._components.pop(name, None)

    @contextlib.contextmanager
    def registrations_undone(self) -> Iterator[None]:
        """Undo at the end of the block what it has added, removed or replaced; also after an error."""
        mappings: list[dict[str, Any]] = [self._components, self._groups, self._connections, self._constants]
        lists: list[list[Any]] = [self._modules, self._stateless, self._substitutes]
        saved = [dict(item) for item in mappings], [list(item) for item in lists]
        try:
            yield
        finally:
            for mapping, entries in zip(mappings, saved[0], strict=True):
                mapping.clear()
                mapping.update(entries)
            for items, members in zip(lists, saved[1], strict=True):
                items[:] = members

    def _commit(self, additions: "_Additions") -> None:
        seen_names: set[str] = set()
        seen_ids: set[int] = set()
        for name, item in additions.named():
            self.assert_unique_name(name)
            if name in seen_names:
                raise DuplicateNameError(f"The name {name!r} is given twice in one call. Names must be unique.")
            seen_names.add(name)
            if isinstance(item, Component):
                _require_unreserved(name, item)
                self.assert_unique_id(item.id, name)
                _require_unregistered(item)
                if item.id in seen_ids:
                    raise DuplicateNameError(f"{item} is given twice in one call. Add it once.")
                seen_ids.add(item.id)
        for scope, component in additions.components:
            component.join(scope)
            self._components[component.name] = component
        self._groups.update(additions.groups)
        self._connections.update({connection.name: connection for connection in additions.connections})

    def get_input_components(self) -> list[Input]:
        """All Inputs, including Memories, in the order of their registration."""
        return [item for item in self._components.values() if isinstance(item, Input)]

    def get_connection_components(self) -> list[Connection]:
        """All Connections."""
        return list(self._connections.values())

    def get_output_components(self) -> list[Output]:
        """All Outputs, including Memories, in the order of their registration."""
        return [item for item in self._components.values() if isinstance(item, Output)]

    def get_memory_components(self) -> list[Memory]:
        """All Memories."""
        return [item for item in self._components.values() if isinstance(item, Memory)]

    def get_component_by_name(self, name: str) -> Input | Output | None:
        """The component with this full name, or with this short name if it is unique; else None."""
        if name in self._components:
            return self._components[name]
        matches = [item for item in self._components.values() if item.short_name == name]
        return matches[0] if len(matches) == 1 else None

    def read_inputs(self) -> None:
        """Update the data of all Inputs and Memories from the environment."""
        for component in self.get_input_components():
            component.read()

    @contextlib.contextmanager
    def calls_replaced(self) -> Iterator[None]:
        """Let the environment get the values of Inputs where it makes the calls that were registered for them."""
        with values_replaced(
            item.called_value for item in self.get_input_components() if item.called_value is not None
        ):
            yield

    def write_connections(self) -> None:
        """Run all connections in the order of their registration."""
        for connection in self._connections.values():
            connection.write()

    def get_inputs(self, to_numpy: bool = False) -> dict[str, torch.Tensor] | dict[str, np.ndarray]:
        """Data from the last read of each Input and Memory, by port name.

        Args:
            to_numpy: Return numpy copies instead of torch tensors.
        """
        components = self.get_input_components()
        if to_numpy:
            return {item.input_name: item.input_data_numpy for item in components}
        return {item.input_name: item.input_data for item in components}

    def get_input_names(self) -> list[str]:
        """Port names of all Inputs and Memories."""
        return [item.input_name for item in self.get_input_components()]

    def get_outputs(self, to_numpy: bool = False) -> dict[str, torch.Tensor] | dict[str, np.ndarray]:
        """Current values of all Outputs and Memories, by port name.

        Args:
            to_numpy: Return numpy copies instead of torch tensors.
        """
        components = self.get_output_components()
        if to_numpy:
            return {item.output_name: item.value_numpy for item in components}
        return {item.output_name: item.value for item in components}

    def get_output_names(self) -> list[str]:
        """Port names of all Outputs and Memories."""
        return [item.output_name for item in self.get_output_components()]

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of all components and groups that have metadata, by full name."""
        described: dict[str, Component | Group] = {**self._components, **self._groups}
        return {name: item.metadata for name, item in described.items() if item.metadata is not None}

    def assert_unique_name(self, name: str) -> None:
        """Check that no component, group, connection or constant has this name.

        Raises:
            DuplicateNameError: If the name is already used. Is also a KeyError and an AssertionError.
        """
        for kind, known in (
            ("component", self._components),
            ("group", self._groups),
            ("connection", self._connections),
            ("constant", self._constants),
        ):
            if name in known:
                raise DuplicateNameError(
                    f"A {kind} named {name!r} already exists. Names must be unique across components, groups, "
                    "connections and constants. Choose another name."
                )

    def assert_unique_id(self, id: int, name: str | None = None) -> None:
        """Check that no component has this id, so that the same object is not added twice.

        Raises:
            DuplicateNameError: If the id is already used. Is also a KeyError and an AssertionError.
        """
        for known in self._components.values():
            if known.id == id:
                raise DuplicateNameError(
                    f"{name or 'The component'} is the same object as {known.name!r}, which was already added. "
                    "Create a new component for each port."
                )

    def add_module(self, module: torch.nn.Module) -> None:
        """Register a module that the observation or action code calls, so that its tensors are treated as weights.

        Raises:
            ComponentError: If it is not a torch.nn.Module.
        """
        if not isinstance(module, torch.nn.Module):
            raise ComponentError(f"add_module() takes a torch.nn.Module, got {type(module).__name__}.")
        if not any(module is known for known in self._modules):
            self._modules.append(module)

    @property
    def modules(self) -> tuple[torch.nn.Module, ...]:
        """All registered modules, in the order of their registration."""
        return tuple(self._modules)


@dataclass(frozen=True)
class _Additions:
    """Everything that one call adds, as flat lists, so that it can be checked before anything is added."""

    components: list[tuple[tuple[str, ...], Component]]
    groups: dict[str, Group]
    connections: list[Connection]
    group_names: list[str]

    @classmethod
    def of_components(cls, items: Iterable[Input | Output | Connection]) -> "_Additions":
        additions = cls([], {}, [], [])
        for item in items:
            if isinstance(item, Connection):
                additions.connections.append(item)
            elif isinstance(item, Component):
                additions.components.append(((), item))
            else:
                raise ComponentError(
                    f"Expected an Input, Output, Memory or Connection, got {type(item).__name__}."
                    + (" Use add_group() for groups." if isinstance(item, Group) else "")
                )
        return additions

    @classmethod
    def of_group(cls, group: Group) -> "_Additions":
        additions = cls([], {}, [], [])
        additions._collect(group, ())
        return additions

    def _collect(self, group: Group, outer: tuple[str, ...]) -> None:
        scope = (*outer, group.name)
        self.group_names.append(".".join(scope))
        self.groups[".".join(scope)] = group
        for item in group.items:
            if isinstance(item, Group):
                self._collect(item, scope)
            else:
                self.components.append((scope, item))

    def named(self) -> Iterator[tuple[str, object]]:
        for name in self.group_names:
            yield name, None
        for scope, component in self.components:
            yield ".".join((*scope, component.short_name)), component
        for connection in self.connections:
            yield connection.name, connection


def _shape_of(component: Component) -> str:
    try:
        return describe(component.fetch())
    except Exception as error:  # for example, the simulator has not started
        return f"not known yet ({type(error).__name__})"


def _require_unregistered(component: Component) -> None:
    if component.is_registered:
        raise DuplicateNameError(
            f"{component} already belongs to a context manager; adding it again could change its name there. "
            "Create a new component for each context manager."
        )


def _require_unreserved(name: str, component: Component) -> None:
    if isinstance(component, Memory):
        return
    if name in _RESERVED_NAMES or name.startswith(_RESERVED_PREFIXES):
        raise ReservedNameError(
            f"{type(component).__name__} cannot be named {name!r}: the file format reserves 'actions', 'obs', "
            "'ctx.*' and 'memory.*' for its own ports. Choose another name, or register a Memory, "
            "whose ports are named memory.NAME.in and memory.NAME.out."
        )
