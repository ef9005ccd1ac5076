"""Core building blocks for environment export.

Inputs, Outputs and Memories connect a name in the exported file to a tensor of the live environment through
a callback. Groups add a common prefix to the names of several components. Connections copy data inside the
environment before anything is computed.
"""

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from exploy.environment.called_values import CalledValue
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ComponentError

TensorCallback = Callable[[], torch.Tensor]

_MEMORY_PREFIX = "memory."
_IN_SUFFIX = ".in"
_OUT_SUFFIX = ".out"
_next_id = itertools.count()


class _Component:
    """Base class of Input, Output and Memory: a name, a callback, metadata and an id."""

    def __init__(self, name: str, get_from_env_cb: TensorCallback, metadata: Any = None):
        self._name = validated_name(name, type(self).__name__)
        self._scope: tuple[str, ...] = ()
        self._is_registered = False
        if not callable(get_from_env_cb):
            raise ComponentError(
                f"{self} needs a callback that returns a torch.Tensor, got {type(get_from_env_cb).__name__}. "
                "Pass for example `lambda: env.joint_pos` instead of the tensor itself."
            )
        self._get_from_env_cb = get_from_env_cb
        self._metadata = metadata
        self._id = next(_next_id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """Full name: the names of the enclosing groups and of the component, joined by dots."""
        return ".".join((*self._scope, self._name))

    @property
    def short_name(self) -> str:
        """The component's own name, without its groups."""
        return self._name

    @property
    def metadata(self) -> Any:
        """Metadata given at construction, or None."""
        return self._metadata

    @property
    def id(self) -> int:
        """Identifier of this component, unique within the process."""
        return self._id

    @property
    def get_from_env_cb(self) -> TensorCallback:
        """The callback that retrieves the tensor from the environment."""
        return self._get_from_env_cb

    def fetch(self) -> torch.Tensor:
        """Call the callback and return the live tensor.

        Raises:
            ComponentError: If the callback does not return a torch.Tensor.
        """
        value = self._get_from_env_cb()
        if not isinstance(value, torch.Tensor):
            raise ComponentError(
                f"The callback of {self} must return a torch.Tensor, got {type(value).__name__}. "
                "Return the tensor that the environment itself reads or writes."
            )
        return value

    @property
    def is_registered(self) -> bool:
        """Whether this component was added to a context manager."""
        return self._is_registered

    def join(self, scope: tuple[str, ...]) -> None:
        """Mark this component as added to a context manager, and set the names of its enclosing groups."""
        self._scope = scope
        self._is_registered = True


class Input(_Component):
    """A tensor that the controller passes to the graph, such as a sensor reading or a command.

    Args:
        name: Identifier of this input; the name of the port in the file.
        get_from_env_cb: Callback that returns the environment's own tensor, which the
            observation and action code reads. Do not return a copy: nothing would read it.
        metadata: Any JSON value; stored in the file under the input's name.
        call: In place of a callback, the call by which the environment gets a new tensor each time: the object, the
            name of its method or property, and the arguments if there are any, such as
            `(robot, "get_dofs_position")`. While the environment is captured, it gets the input from this call.
    """

    def __init__(
        self,
        name: str,
        get_from_env_cb: TensorCallback | None = None,
        metadata: Any = None,
        *,
        call: tuple[Any, ...] | None = None,
    ):
        self._called = None if call is None else CalledValue(call)
        if self._called is not None:
            if get_from_env_cb is not None:
                raise ComponentError(f"Input({name!r}) takes a callback or a call, not both.")
            get_from_env_cb = _callback(self._called)
        super().__init__(name, get_from_env_cb, metadata)  # type: ignore[arg-type]
        self._data: torch.Tensor | None = None

    @property
    def called_value(self) -> CalledValue | None:
        """The call by which the environment gets this input; None if there is a callback."""
        return self._called

    @property
    def input_name(self) -> str:
        """Name of the port in the file, groups included."""
        return self.name

    @property
    def input_data(self) -> torch.Tensor:
        """The tensor of the last read(); calls read() if it was never called."""
        if self._data is None:
            self.read()
        assert self._data is not None
        return self._data

    @property
    def input_data_numpy(self) -> np.ndarray:
        """A numpy copy of the data of the last read()."""
        return to_numpy(self.input_data)

    def read(self) -> None:
        """Get the latest data from the environment.

        Raises:
            ComponentError: If the callback does not return a tensor, or its shape or dtype has changed.
        """
        value = self.fetch()
        if self._data is not None and (value.shape != self._data.shape or value.dtype != self._data.dtype):
            raise ComponentError(
                f"{self} returned {describe(self._data)} before and {describe(value)} now. "
                "The shape and dtype of a component must stay the same from call to call."
            )
        self._data = value


class Output(_Component):
    """A tensor that the graph computes for the controller, such as joint targets.

    Args:
        name: Identifier of this output; the name of the port in the file.
        get_from_env_cb: Callback that returns the environment's tensor after `apply_actions()`.
        metadata: Any JSON value; stored in the file under the output's name.
    """

    def __init__(self, name: str, get_from_env_cb: TensorCallback, metadata: Any = None):
        super().__init__(name, get_from_env_cb, metadata)

    @property
    def output_name(self) -> str:
        """Name of the port in the file, groups included."""
        return self.name

    @property
    def value(self) -> torch.Tensor:
        """The current tensor of the environment."""
        return self.fetch()

    @property
    def value_numpy(self) -> np.ndarray:
        """A numpy copy of the current tensor of the environment."""
        return to_numpy(self.fetch())


class Memory(Input, Output):
    """A tensor that persists from one call to the next, such as the previous actions.

    The file has an input `memory.NAME.in` and an output `memory.NAME.out` for it.

    Args:
        name: Identifier of this memory.
        get_from_env_cb: Callback that returns the environment's tensor.
    """

    def __init__(self, name: str, get_from_env_cb: TensorCallback):
        super().__init__(name, get_from_env_cb)

    @property
    def input_name(self) -> str:
        """Name of the memory's input port in the file."""
        return f"{_MEMORY_PREFIX}{self.name}{_IN_SUFFIX}"

    @property
    def output_name(self) -> str:
        """Name of the memory's output port in the file."""
        return f"{_MEMORY_PREFIX}{self.name}{_OUT_SUFFIX}"

    def io_name_to_name(self, io_name: str) -> str:
        """Convert `memory.NAME.in` or `memory.NAME.out` to `NAME`.

        Raises:
            ComponentError: If `io_name` does not have this form.
        """
        name = io_name.removeprefix(_MEMORY_PREFIX)
        stem = name.removesuffix(_IN_SUFFIX) if name.endswith(_IN_SUFFIX) else name.removesuffix(_OUT_SUFFIX)
        if not stem or name == io_name or stem == name:
            raise ComponentError(f"Expected 'memory.NAME.in' or 'memory.NAME.out', got {io_name!r}.")
        return stem

    def io_name_to_output_name(self, io_name: str) -> str:
        """Convert `memory.NAME.in` or `memory.NAME.out` to `memory.NAME.out`.

        Raises:
            ComponentError: If `io_name` does not have this form.
        """
        return f"{_MEMORY_PREFIX}{self.io_name_to_name(io_name)}{_OUT_SUFFIX}"


class Constant(_Component):
    """A tensor whose value at export is stored in the file, such as gains or limits.

    Args:
        name: Identifier of this constant; the file lists it under this name.
        get_from_env_cb: Callback that returns the environment's own tensor.
    """


class Group:
    """Related components under one name; their ports are named `GROUP.ITEM`.

    Args:
        name: Name of the group.
        items: Inputs, Outputs, Memories, or nested Groups.
        metadata: Any JSON value; stored in the file under the group's name.
    """

    def __init__(self, name: str, items: Iterable["Input | Output | Group"], metadata: Any = None):
        self._name = validated_name(name, "Group")
        self._items = list(items)
        self._metadata = metadata
        for item in self._items:
            if not isinstance(item, Input | Output | Group):
                raise ComponentError(
                    f"Group({name!r}) takes Inputs, Outputs, Memories and Groups, got {type(item).__name__}."
                )

    @property
    def name(self) -> str:
        """Return the name of this group."""
        return self._name

    @property
    def items(self) -> list["Input | Output | Group"]:
        """The items of this group, in their given order."""
        return list(self._items)

    @property
    def metadata(self) -> Any:
        """Metadata given at construction, or None."""
        return self._metadata


class Connection:
    """Copies data inside the environment at the start of every step, for example an Input into a command buffer.

    Args:
        name: Name of the connection.
        getter: Returns the value to write.
        setter: Writes the value into the environment.
    """

    def __init__(self, name: str, getter: Callable[[], Any], setter: Callable[[Any], object]):
        self._name = validated_name(name, "Connection")
        if not callable(getter) or not callable(setter):
            raise ComponentError(f"Connection({name!r}) needs two callables, a getter and a setter.")
        self._getter = getter
        self._setter = setter

    def __repr__(self) -> str:
        return f"Connection({self._name!r})"

    @property
    def name(self) -> str:
        """The name of this connection."""
        return self._name

    def write(self) -> None:
        """Write data to the environment by calling the setter with the value from the getter."""
        self._setter(self._getter())


def _callback(called: CalledValue) -> TensorCallback:
    """A callback that says where the function that is called was defined."""

    @functools.wraps(called.function)
    def fetch() -> torch.Tensor:
        return called.fetch()

    return fetch


def describe(tensor: torch.Tensor) -> str:
    """Format the shape and dtype of a tensor for messages."""
    return f"shape {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def validated_name(name: str, kind: str) -> str:
    """Return `name` if it is a valid port name.

    Raises:
        ComponentError: If it is not a string, is empty, or contains white space or an empty part between dots.
    """
    if not isinstance(name, str) or not name.isprintable() or " " in name or not all(name.split(".")):
        raise ComponentError(f"A {kind} needs a name without white space or empty parts between dots, got {name!r}.")
    return name
