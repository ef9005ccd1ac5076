"""Tensordict keys, their port names, and tensordicts with the layout of an example."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.policy.policy import BATCH, Shape
from exploy.trainers.common.libraries import library

Key = tuple[str, ...]

EXTRA = "torchrl"  # the extra of exploy that installs TorchRL
NEXT = "next"
IS_INIT: Key = ("is_init",)


def as_key(key: Any) -> Key:
    """A key as a flat tuple of strings.

    Raises:
        PolicyError: If it is neither a string nor a tuple of strings.
    """
    if isinstance(key, str):
        return (key,)
    if isinstance(key, tuple) and key:
        return tuple(part for item in key for part in as_key(item))
    raise PolicyError(f"A tensordict key must be a string or a tuple of strings, got {key!r}.")


def as_keys(keys: Any) -> list[Key]:
    """One or several keys as a list. Keys called `_` are dropped, because nothing is written to them."""
    if keys is None:
        return []
    keys = [keys] if isinstance(keys, str) else list(keys)
    return [as_key(key) for key in keys if key != "_"]


def shown(key: Key) -> str:
    """A key as users write it."""
    return repr(key[0]) if len(key) == 1 else repr(key)


def listed(keys: Iterable[Key]) -> str:
    """Several keys as text for a message."""
    return ", ".join(shown(key) for key in sorted(keys)) or "nothing"


def port_name(key: Key) -> str:
    """The name of the port that a key becomes."""
    return "_".join(key)


def require_usable_names(keys: Iterable[Key]) -> None:
    """Raise if keys cannot become ports.

    Raises:
        PolicyError: If a port name is not an identifier, or two keys would become the same port.
    """
    seen: dict[str, Key] = {}
    for key in keys:
        name = port_name(key)
        if not name.isidentifier():
            raise PolicyError(
                f"The key {shown(key)} would become a port called {name!r}, which is not an identifier. Rename it, for "
                "example with a RenameTransform in the environment."
            )
        if seen.setdefault(name, key) != key:
            raise PolicyError(
                f"The keys {shown(seen[name])} and {shown(key)} would both become the port {name!r}. Rename one of "
                "them, for example with a RenameTransform in the environment."
            )


class Layout:
    """The tensors of an example, and the batch sizes of its nested tensordicts.

    The first batch dimension is the number of robots. An example without batch dimensions, such as a dictionary of
    tensors or a tensordict of a non-vectorised environment, is one robot. Its tensors keep their shapes.

    Args:
        example: A tensordict, or a dictionary of tensors.

    Raises:
        PolicyError: If the example is neither of them.
    """

    def __init__(self, example: Any):
        tensordict = library("tensordict", EXTRA)
        if isinstance(example, Mapping) and not tensordict.is_tensor_collection(example):
            example = tensordict.TensorDict(dict(example), batch_size=[])
        if not tensordict.is_tensor_collection(example):
            raise PolicyError(
                f"example must be a tensordict or a dictionary of tensors, such as env.fake_tensordict(), got "
                f"{type(example).__name__}."
            )
        self._make = tensordict.TensorDict
        self._values: dict[Key, Any] = {}
        self._nodes: dict[Key, tuple[int, ...]] = {(): tuple(example.batch_size)}
        for key, value in example.items(True):
            if tensordict.is_tensor_collection(value) and not tensordict.is_non_tensor(value):
                self._nodes[as_key(key)] = tuple(value.batch_size)
            else:
                self._values[as_key(key)] = value

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions. The first one is the number of robots."""
        return len(self._nodes[()])

    @property
    def batch_size(self) -> tuple[int, ...]:
        """The batch size of the example."""
        return self._nodes[()]

    def tensor(self, key: Key, reader: str) -> torch.Tensor:
        """A tensor of the example.

        Args:
            key: The key of the tensor.
            reader: The name of the reader, for the error message.

        Raises:
            PolicyError: If the key is missing or its value is not a tensor.
        """
        if key not in self._values:
            raise PolicyError(
                f"{reader} reads {shown(key)}, which is missing in the example. It has {listed(self._values)}. Give an "
                "example with all keys that the policy and its transforms read, such as "
                "env.base_env.fake_tensordict(). Wrap functions without in_keys and out_keys in a TensorDictModule, "
                "because the keys that they write are unknown."
            )
        value = self._values[key]
        if not isinstance(value, torch.Tensor):
            raise PolicyError(
                f"{reader} reads {shown(key)}, which must be a tensor to become a port, "
                f"but is a {type(value).__name__}."
            )
        return value.detach().cpu()

    def get(self, key: Key) -> torch.Tensor | None:
        """A tensor of the example, or None."""
        value = self._values.get(key)
        return value.detach().cpu() if isinstance(value, torch.Tensor) else None

    def shape(self, tensor: torch.Tensor) -> Shape:
        """The shape of a tensor, with BATCH for the number of robots."""
        return (BATCH, *tensor.shape[1:]) if self.batch_dims else tuple(tensor.shape)

    def tensordict(self, values: Mapping[Key, torch.Tensor]) -> Any:
        """A tensordict of these tensors with the batch sizes of the example, except for the number of robots."""
        robots = next(iter(values.values())).shape[:1] if self.batch_dims else ()
        return self._node((), values, tuple(robots))

    def _node(self, prefix: Key, values: Mapping[Key, torch.Tensor], robots: tuple[int, ...]) -> Any:
        entries: dict[str, Any] = {}
        for key, value in values.items():
            if key[: len(prefix)] != prefix:
                continue
            name = key[len(prefix)]
            if len(key) == len(prefix) + 1:
                entries[name] = value
            elif name not in entries:
                entries[name] = self._node((*prefix, name), values, robots)
        sizes = self._nodes.get(prefix, self._nodes[()])
        return self._make(entries, batch_size=(*robots, *sizes[len(robots) :]))
