"""A chain of stages as a policy."""

from collections.abc import Mapping
from typing import Any

import torch

from exploy.contract import Kind
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors
from exploy.trainers.torchrl.chain import Chain
from exploy.trainers.torchrl.exploration import is_random
from exploy.trainers.torchrl.keys import Key, port_name, refuse_unusable_names
from exploy.trainers.torchrl.layout import Layout
from exploy.trainers.torchrl.memories import known_starts, state_of
from exploy.trainers.torchrl.run import Run

LIBRARIES = ("torchrl", "tensordict")


class TorchRlPolicy(Policy):
    """Transforms, policy and inverse transforms of TorchRL.

    Raises:
        PolicyError: If the example does not have what is read, the policy fails on it, or what it gives is no function
            of its inputs although it should be.
    """

    def __init__(self, chain: Chain, layout: Layout, exploration: Any):
        values = {key: layout.tensor(key, chain.readers[key]) for key in chain.observed}
        values |= {key: _flag(key, layout) for key in sorted(chain.flags)}
        refuse_unusable_names([*values, *(memory.read for memory in chain.memories)])
        refuse_unusable_names(chain.outputs)
        run = Run(chain, layout, exploration)
        starts = known_starts(chain, layout)
        result = run.on_example(values | starts)
        super().__init__(
            [_input(key, value, chain, layout) for key, value in values.items()],
            [state_of(memory, starts.get(memory.read), result, layout) for memory in chain.memories],
            [port_name(key) for key in chain.outputs],
            libraries=LIBRARIES,
            is_random=is_random(exploration),
        )
        self._keys = [*values, *(memory.read for memory in chain.memories)]
        self._run = run
        self.stages = run.stages
        self._fresh: torch.Tensor | None = None
        self.eval()
        run.refuse_unfaithful(self, tuple(values.values()))

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute outputs and next memories as the environment and the policy do."""
        return self._run(dict(zip(self._keys, (*inputs, *states), strict=True)))

    def forward(self, obs: torch.Tensor | Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Compute actions from raw observations, and remember the state; flags of resets can be left out.

        Raises:
            ActorError: If the policy reads several inputs and gets one tensor, or one of them is missing.
        """
        observed = [item for item in self.inputs if item.kind != Kind.IS_INIT]
        if isinstance(obs, torch.Tensor) and len(observed) == 1:
            obs = {observed[0].name: obs}
        if not isinstance(obs, torch.Tensor):
            obs = self._flagged(dict(obs))
        actions = super().forward(obs)
        if len(observed) < len(self.inputs):
            self._fresh = torch.zeros(1, dtype=torch.bool)
        return actions

    def reset(self, dones: torch.Tensor) -> None:
        """Let the state of those robots whose flag in `dones` (batch_size,) is set start anew."""
        super().reset(dones)
        self._fresh = dones.bool()

    def _flagged(self, obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        robots = next(iter(obs.values())).shape[0] if obs else 1
        for item in self.inputs:
            if item.kind == Kind.IS_INIT and item.name not in obs:
                sizes = [robots if size == BATCH else int(size) for size in item.shape]
                fresh = torch.ones(1, dtype=torch.bool) if self._fresh is None else self._fresh
                fresh = fresh.reshape([-1 if size == BATCH else 1 for size in item.shape])
                obs[item.name] = fresh.expand(sizes)
        return obs

    def _states_for(self, inputs: Tensors) -> Tensors:
        if any(BATCH in item.shape for item in self.inputs):
            return super()._states_for(inputs)
        return self.get_state() or ()


class _MaskInput(PolicyInput):
    """Flags such as those of allowed actions, of which at least one is set: most policies need that."""

    def draw(self, batch: int, generator: torch.Generator) -> torch.Tensor:
        """Random flags."""
        flags = super().draw(batch, generator)
        flags[..., int(torch.randint(flags.shape[-1], (), generator=generator))] = True
        return flags


def _flag(key: Key, layout: Layout) -> torch.Tensor:
    """A flag of a reset as the example has it, or as `InitTracker` makes it."""
    given = layout.get(key)
    sizes = (*layout.batch_size, 1) if given is None else given.shape
    return torch.ones(sizes, dtype=torch.bool)


def _input(key: Key, value: torch.Tensor, chain: Chain, layout: Layout) -> PolicyInput:
    kind = Kind.IS_INIT if key in chain.flags else None
    is_number = value.dtype not in (torch.uint8, torch.bool) and not value.dtype.is_floating_point
    high = max(int(value.max()) + 1, 1) if is_number and value.numel() else 256
    make = _MaskInput if value.dtype == torch.bool and kind is None and value.ndim else PolicyInput
    return make(port_name(key), layout.shape(value), value.dtype, high, kind)
