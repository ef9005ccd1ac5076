"""Converts the modules of a policy to stages, with the keys that they read, write and remember."""

from collections.abc import Iterator
from types import MethodType
from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.trainers.common.attributes import has
from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.stages import Block, Everything, MemoryKeys, Stage
from exploy.trainers.torchrl.tensordicts import EXTRA, IS_INIT, Key, as_key, as_keys
from exploy.trainers.torchrl.torchrl_internals import (
    fill_multi_agent_networks,
    move_specs_to_cpu,
    own,
    parts_of_sequence,
    recurrent_network,
    uninitialized,
)
from exploy.trainers.torchrl.transforms import transform_stages


def module_stages(module: Any, *, explores: bool) -> Iterator[Stage]:
    """The stages of a policy, with copied modules. A sequence becomes one stage per module.

    Args:
        module: The module.
        explores: Whether exploration modules change actions.

    Raises:
        PolicyError: If a transform in it cannot be exported.
    """
    parts = parts_of_sequence(module)
    if isinstance(module, library("torchrl.envs", EXTRA).Transform):
        yield from transform_stages(module)
    elif parts is not None:
        for part in parts:
            yield from module_stages(part, explores=explores)
    elif hasattr(module, "in_keys") and hasattr(module, "out_keys"):
        yield _ModuleStage(_capturable(module), explores)
    elif callable(module):
        yield Everything(type(module).__name__, own(module), has_own_keys=True)


def require_policy(policy: Any) -> None:
    """Raise if a policy is not a module with keys, or was never run.

    Raises:
        PolicyError: With the type of the policy, or with the parameters that have no shape.
    """
    if not isinstance(policy, torch.nn.Module) or not has(policy, "in_keys", "out_keys"):
        raise PolicyError(
            f"A {type(policy).__module__}.{type(policy).__name__} is not a TorchRL policy: it must be a "
            "TensorDictModule, or another torch.nn.Module with `in_keys` and `out_keys`. Wrap it in "
            'TensorDictModule(module, in_keys=["observation"], out_keys=["action"]).'
        )
    lazy = uninitialized(policy)
    if lazy:
        raise PolicyError(
            f"The policy was never run: {', '.join(lazy)} has no shape yet. Call the policy once on an example "
            "before the export."
        )


def _capturable(module: Any) -> Any:
    copied = own(module)
    move_specs_to_cpu(copied)
    for part in copied.modules():
        if getattr(getattr(part, "distribution_class", None), "__name__", "") == "TanhDelta":
            # The safe form of tanh cannot be captured. It differs by 1e-6 where tanh is saturated.
            part.distribution_kwargs = {**part.distribution_kwargs, "safe": False}
    _let_recurrent_modules_step(copied)
    fill_multi_agent_networks(copied)
    return copied


class _ModuleStage(Block):
    """A tensordict module."""

    def __init__(self, module: Any, explores: bool):
        reads, writes = set(as_keys(module.in_keys)), set(as_keys(module.out_keys))
        super().__init__(type(module).__name__, reads, writes, module)
        self.module: torch.nn.Module = module
        self._process = getattr(module, "ou", None) if hasattr(module, "is_init_key") else None
        self._flag_key = as_key(module.is_init_key) if self._process is not None else None
        if self._process is not None:
            self._writes = frozenset({as_key(self._process.key)})
            if explores:
                assert self._flag_key is not None
                self._reads |= {self._flag_key, *(memory.read for memory in self.memories())}
                self._writes |= {memory.written for memory in self.memories()}
            else:
                self._process = None
        self._reads = (self._reads - _masks_in(module)) | _masks_in(module, explores)

    def memories(self) -> list[MemoryKeys]:
        found = [memory for part in _recurrent_modules(self.module) for memory in _hidden_states(part)]
        if self._process is not None:
            keys = [as_key(self._process.noise_key), as_key(self._process.steps_key)]
            found += [MemoryKeys(key, key, is_optional=True) for key in keys]
        return found

    def flags(self) -> set[Key]:
        flags = {self._flag_key} if self._process is not None and self._flag_key is not None else set()
        return flags | ({IS_INIT} if any(True for _ in _recurrent_modules(self.module)) else set())


def _masks_in(module: torch.nn.Module, explores: bool = True) -> set[Key]:
    """The keys of action masks, which some modules do not list in their `in_keys`."""
    found = set()
    for part in module.modules():
        key = getattr(part, "action_mask_key", None)
        if key is not None and (explores or type(part).__name__ != "EGreedyModule"):
            found.add(as_key(key))
    return found


def _recurrent_modules(module: torch.nn.Module) -> Iterator[Any]:
    """All recurrent modules in a module."""
    return (part for part in module.modules() if recurrent_network(part) is not None)


def _hidden_states(module: Any) -> list[MemoryKeys]:
    """The states of a recurrent module: the keys after the first one in its `in_keys` and `out_keys`."""
    reads = [key for key in as_keys(module.in_keys)[1:] if key != IS_INIT]
    return [
        MemoryKeys(read, written, is_optional=True)
        for read, written in zip(reads, as_keys(module.out_keys)[1:], strict=False)
    ]


def _let_recurrent_modules_step(module: torch.nn.Module) -> None:
    """Make the recurrent modules of a copy run single steps for any number of robots, without branches.

    The library's forward also handles whole trajectories. For the GRU it branches on the reset flags, and for both it
    flattens batches in a way that fixes their size.
    """
    for part in _recurrent_modules(module):
        part.forward = MethodType(_step, part)


def _step(self: Any, tensordict: Any) -> Any:
    network = recurrent_network(self)
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
    """The hidden states, or zeros if they are not set yet."""
    layers = network.num_layers * (2 if network.bidirectional else 1)
    widths = [getattr(network, "proj_size", 0) or network.hidden_size, network.hidden_size]
    found = []
    for key, width in zip(_hidden_states(module), widths, strict=False):
        state = tensordict.get(key.read, None)
        if state is None:
            state = torch.zeros(*tensordict.batch_size, layers, width, dtype=value.dtype)
        found.append(state)
    return found
