"""The recurrent modules of TorchRL, whose hidden states are memories."""

from collections.abc import Iterator
from types import MethodType
from typing import Any

import torch

from exploy.trainers.torchrl.keys import IS_INIT, as_keys
from exploy.trainers.torchrl.stages import MemoryKeys

_NETWORKS = {"LSTMModule": "lstm", "GRUModule": "gru"}


def recurrent_modules(module: torch.nn.Module) -> Iterator[Any]:
    """All recurrent modules in a module."""
    return (part for part in module.modules() if _network_name(part) is not None)


def hidden_states(module: Any) -> list[MemoryKeys]:
    """The states of a recurrent module: what it reads and writes after its first key."""
    reads = [key for key in as_keys(module.in_keys)[1:] if key != IS_INIT]
    return [
        MemoryKeys(read, written, is_optional=True)
        for read, written in zip(reads, as_keys(module.out_keys)[1:], strict=False)
    ]


def mend_recurrent(module: torch.nn.Module) -> None:
    """Let the recurrent modules in a copy do single steps for any number of robots, without branches.

    The library's own forward also serves whole trajectories: the one of the GRU branches on the flags of resets, and
    both flatten batches in a way that fixes their size.
    """
    for part in recurrent_modules(module):
        part.forward = MethodType(_step, part)


def _step(self: Any, tensordict: Any) -> Any:
    network = getattr(self, str(_network_name(self)))
    batch = tensordict.batch_size
    value = tensordict.get(self.in_keys[0])
    states = _first_states(self, network, tensordict, value)
    is_init = tensordict.get("is_init").reshape(-1)[:, None, None]
    flat = [torch.where(is_init, 0.0, state.reshape(-1, *state.shape[-2:])).transpose(0, 1) for state in states]
    hidden = tuple(state.contiguous() for state in flat)
    result, following = network(value.reshape(-1, 1, value.shape[-1]), hidden if len(hidden) > 1 else hidden[0])
    written = [result[:, 0], *(state.transpose(0, 1) for state in (following if len(hidden) > 1 else (following,)))]
    for key, item in zip(self.out_keys, written, strict=False):
        tensordict.set(key, item.reshape(*batch, *item.shape[1:]))
    return tensordict


def _first_states(module: Any, network: Any, tensordict: Any, value: torch.Tensor) -> list[torch.Tensor]:
    """The hidden states, or zeros where there are none yet."""
    layers = network.num_layers * (2 if network.bidirectional else 1)
    widths = [getattr(network, "proj_size", 0) or network.hidden_size, network.hidden_size]
    found = []
    for key, width in zip(hidden_states(module), widths, strict=False):
        state = tensordict.get(key.read, None)
        if state is None:
            state = torch.zeros(*tensordict.batch_size, layers, width, dtype=value.dtype)
        found.append(state)
    return found


def _network_name(part: Any) -> str | None:
    for base in type(part).__mro__:
        if base.__name__ in _NETWORKS and base.__module__.startswith("torchrl."):
            return _NETWORKS[base.__name__]
    return None
