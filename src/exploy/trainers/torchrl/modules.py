"""Policies as stages: the modules in them, with what they read, write and remember."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.trainers.common.attributes import has
from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.copies import own, uninitialized
from exploy.trainers.torchrl.keys import EXTRA, IS_INIT, Key, as_key, as_keys
from exploy.trainers.torchrl.multiagent import mend_multiagent
from exploy.trainers.torchrl.recurrent import hidden_states, mend_recurrent, recurrent_modules
from exploy.trainers.torchrl.stages import Block, Everything, MemoryKeys, Stage


def module_stages(module: Any, *, explores: bool, transform_stages: Callable[[Any], list[Stage]]) -> Iterator[Stage]:
    """The stages of a policy, on copies; sequences are taken apart.

    Args:
        module: The module.
        explores: Whether exploration modules change actions.
        transform_stages: Gives the stages of a transform that stands in a policy.

    Raises:
        PolicyError: If a transform in it has no form.
    """
    if isinstance(module, library("torchrl.envs", EXTRA).Transform):
        yield from transform_stages(module)
    elif _is_plain_sequence(module):
        for part in module._module_iter():
            yield from module_stages(part, explores=explores, transform_stages=transform_stages)
    elif hasattr(module, "in_keys") and hasattr(module, "out_keys"):
        yield _ModuleStage(_mended(module), explores)
    elif callable(module):
        yield Everything(type(module).__name__, own(module), has_own_keys=True)


def refuse_other_policies(policy: Any) -> None:
    """Refuse what is no module with keys, or was never run.

    Raises:
        PolicyError: With what it is, or with the parameters that have no shape.
    """
    if not isinstance(policy, torch.nn.Module) or not has(policy, "in_keys", "out_keys"):
        raise PolicyError(
            f"A {type(policy).__module__}.{type(policy).__name__} is no policy of TorchRL: it must be a "
            "TensorDictModule, or another torch.nn.Module with `in_keys` and `out_keys`. Wrap it in "
            'TensorDictModule(module, in_keys=["observation"], out_keys=["action"]).'
        )
    lazy = uninitialized(policy)
    if lazy:
        raise PolicyError(
            f"The policy was never run: {', '.join(lazy)} has no shape yet. Call it once on an example before the "
            "export."
        )


def _mended(module: Any) -> Any:
    copied = own(module)
    for part in copied.modules():
        if hasattr(getattr(part, "_spec", None), "to"):
            part._spec = part._spec.to("cpu")
        if getattr(getattr(part, "distribution_class", None), "__name__", "") == "TanhDelta":
            # The other form of tanh, which differs by 1e-6 where it is saturated, refuses to be captured.
            part.distribution_kwargs = {**part.distribution_kwargs, "safe": False}
    mend_recurrent(copied)
    mend_multiagent(copied)
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
        found = [memory for part in recurrent_modules(self.module) for memory in hidden_states(part)]
        if self._process is not None:
            keys = [as_key(self._process.noise_key), as_key(self._process.steps_key)]
            found += [MemoryKeys(key, key, is_optional=True) for key in keys]
        return found

    def flags(self) -> set[Key]:
        flags = {self._flag_key} if self._process is not None and self._flag_key is not None else set()
        return flags | ({IS_INIT} if any(True for _ in recurrent_modules(self.module)) else set())


def _masks_in(module: torch.nn.Module, explores: bool = True) -> set[Key]:
    """The keys of masks of actions, which not all modules tell among those that they read."""
    found = set()
    for part in module.modules():
        key = getattr(part, "action_mask_key", None)
        if key is not None and (explores or type(part).__name__ != "EGreedyModule"):
            found.add(as_key(key))
    return found


def _is_plain_sequence(module: Any) -> bool:
    sequences = library("tensordict.nn", EXTRA)
    return (
        isinstance(module, sequences.TensorDictSequential)
        and not isinstance(module, sequences.ProbabilisticTensorDictSequential)
        and type(module).forward is sequences.TensorDictSequential.forward
        and not getattr(module, "partial_tolerant", False)
        and all(type(hook).__name__ == "_OutKeysSelect" for hook in module._forward_hooks.values())
    )
