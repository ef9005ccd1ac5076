"""A chain of stages as a policy: its execution, its exploration type and the initial values of its memories."""

from collections.abc import Mapping
from typing import Any

import torch

from exploy.capture.quiet_loggers import quiet_loggers
from exploy.contract import PortKind
from exploy.errors import ExployError, PolicyError
from exploy.policy.policy import BATCH, Policy, PolicyInput, PolicyState, Tensors
from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.stages import Chain, MemoryKeys
from exploy.trainers.torchrl.tensordicts import EXTRA, Key, Layout, listed, port_name, require_usable_names, shown
from exploy.trainers.torchrl.torchrl_internals import CapturableCalls

LIBRARIES = ("torchrl", "tensordict")


class TorchRlPolicy(Policy):
    """Transforms, policy and inverse transforms of TorchRL.

    Raises:
        PolicyError: If a key is missing in the example, the policy fails on it, or a deterministic policy returns
            different actions for the same inputs.
    """

    def __init__(self, chain: Chain, layout: Layout, exploration: Any):
        values = {key: layout.tensor(key, chain.readers[key]) for key in chain.observed}
        values |= {key: _flag(key, layout) for key in sorted(chain.flags)}
        require_usable_names([*values, *(memory.read for memory in chain.memories)])
        require_usable_names(chain.outputs)
        run = _Run(chain, layout, exploration)
        starts = _known_starts(chain, layout)
        result = run.on_example(values | starts)
        super().__init__(
            [_input(key, value, chain, layout) for key, value in values.items()],
            [_state_of(memory, starts.get(memory.read), result, layout) for memory in chain.memories],
            [port_name(key) for key in chain.outputs],
            libraries=LIBRARIES,
            is_random=is_random(exploration),
        )
        self._keys = [*values, *(memory.read for memory in chain.memories)]
        self._run = run
        self.stages = run.stages
        self._fresh: torch.Tensor | None = None
        self.eval()
        run.require_faithful(self, tuple(values.values()))

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute the outputs and the next memories as the environment and the policy do."""
        return self._run(dict(zip(self._keys, (*inputs, *states), strict=True)))

    def forward(self, obs: torch.Tensor | Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Compute actions from raw observations, and keep the state. Reset flags are optional.

        Raises:
            ActorError: If the policy reads several inputs and gets one tensor, or one of them is missing.
        """
        observed = [item for item in self.inputs if item.kind != PortKind.IS_INIT]
        if isinstance(obs, torch.Tensor) and len(observed) == 1:
            obs = {observed[0].name: obs}
        if not isinstance(obs, torch.Tensor):
            obs = self._flagged(dict(obs))
        actions = super().forward(obs)
        if len(observed) < len(self.inputs):
            self._fresh = torch.zeros(1, dtype=torch.bool)
        return actions

    def reset(self, dones: torch.Tensor) -> None:
        """Reset the state of the robots whose flag in `dones` (batch_size,) is set."""
        super().reset(dones)
        self._fresh = dones.bool()

    def _flagged(self, obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        robots = next(iter(obs.values())).shape[0] if obs else 1
        for item in self.inputs:
            if item.kind == PortKind.IS_INIT and item.name not in obs:
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
    """Flags such as action masks. At least one flag is set, because most policies need that."""

    def draw(self, batch: int, generator: torch.Generator) -> torch.Tensor:
        """Random flags."""
        flags = super().draw(batch, generator)
        flags[..., int(torch.randint(flags.shape[-1], (), generator=generator))] = True
        return flags


def _flag(key: Key, layout: Layout) -> torch.Tensor:
    """A reset flag with the shape in the example, or with the shape of `InitTracker`."""
    given = layout.get(key)
    sizes = (*layout.batch_size, 1) if given is None else given.shape
    return torch.ones(sizes, dtype=torch.bool)


def _input(key: Key, value: torch.Tensor, chain: Chain, layout: Layout) -> PolicyInput:
    kind = PortKind.IS_INIT if key in chain.flags else None
    is_number = value.dtype not in (torch.uint8, torch.bool) and not value.dtype.is_floating_point
    high = max(int(value.max()) + 1, 1) if is_number and value.numel() else 256
    make = _MaskInput if value.dtype == torch.bool and kind is None and value.ndim else PolicyInput
    return make(port_name(key), layout.shape(value), value.dtype, high, kind)


def _known_starts(chain: Chain, layout: Layout) -> dict[Key, torch.Tensor]:
    """The initial values of memories for all robots of the example, except where the first step gives the shape.

    Raises:
        PolicyError: If the shape of a memory is unknown and the memory is missing in the example.
    """
    starts = {}
    for memory in chain.memories:
        given = layout.get(memory.read)
        if given is None and memory.start is None and not memory.is_optional:
            layout.tensor(memory.read, chain.readers[memory.read])
        start = _start(memory, given, layout)
        if start is not None:
            starts[memory.read] = start
    return starts


def _start(memory: MemoryKeys, given: torch.Tensor | None, layout: Layout) -> torch.Tensor | None:
    """The initial value of a memory for all robots of the example. None if the first step gives its shape."""
    start = memory.start
    if given is not None:
        return (
            torch.zeros_like(given) if start is None else _expanded(start.to(given.dtype), tuple(given.shape), memory)
        )
    if start is None or (memory.is_optional and start.ndim == 0):
        return None
    dims = layout.batch_dims
    is_whole = dims > 0 and tuple(start.shape[:dims]) == layout.batch_size
    return start if is_whole or not dims else start.expand(*layout.batch_size, *start.shape)


def _expanded(start: torch.Tensor, shape: tuple[int, ...], memory: MemoryKeys) -> torch.Tensor:
    try:
        return start.expand(shape)
    except RuntimeError as error:
        raise PolicyError(
            f"The memory {shown(memory.read)} has shape {shape} in the example, but its initial value has shape "
            f"{tuple(start.shape)}. Give both the same shape."
        ) from error


def _state_of(memory: MemoryKeys, start: torch.Tensor | None, result: Any, layout: Layout) -> PolicyState:
    """A memory as a state of the policy.

    Args:
        memory: The memory.
        start: Its initial value, if known before the first step.
        result: The result of the first step.
        layout: The layout of the example.

    Raises:
        PolicyError: If its next value has a different shape or dtype.
    """
    following = result.get(memory.written)
    if start is None:
        start = torch.zeros_like(following) if memory.start is None else memory.start.to(following.dtype)
        start = start.expand(following.shape)
    if start.shape != following.shape or start.dtype != following.dtype:
        raise PolicyError(
            f"The memory {shown(memory.read)} is read with shape {tuple(start.shape)} and dtype {start.dtype}, but its "
            f"next value {shown(memory.written)} has shape {tuple(following.shape)} and dtype {following.dtype}."
        )
    one = start[:1] if layout.batch_dims else start
    return PolicyState(port_name(memory.read), layout.shape(following), following.dtype, one.contiguous().clone())


class _Run:
    """Runs a chain.

    Args:
        chain: The stages.
        layout: The layout of the tensordicts.
        exploration: The exploration type that is set during a run.
    """

    def __init__(self, chain: Chain, layout: Layout, exploration: Any):
        self._chain, self._layout, self._exploration = chain, layout, exploration
        self.stages = torch.nn.ModuleList(chain.stages)
        self._set_exploration = library("torchrl.envs.utils", EXTRA).set_exploration_type
        self._set_recurrent = library("torchrl.modules", EXTRA).set_recurrent_mode

    def __call__(self, values: Mapping[Key, torch.Tensor]) -> tuple[Tensors, Tensors]:
        """The outputs and the next memories."""
        result = self.tensordict(values)
        outputs = tuple(result.get(key) for key in self._chain.outputs)
        return outputs, tuple(result.get(memory.written) for memory in self._chain.memories)

    def tensordict(self, values: Mapping[Key, torch.Tensor]) -> Any:
        """The tensordict with everything that the stages write."""
        tensordict = self._layout.tensordict(values)
        with self._set_exploration(self._exploration), self._set_recurrent(False), CapturableCalls():
            return self._chain.run(tensordict)

    def on_example(self, values: Mapping[Key, torch.Tensor]) -> Any:
        """The tensordict that the stages write for an example, with a fixed random seed.

        Raises:
            PolicyError: If the policy fails, or an output or a memory is not written.
        """
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), quiet_loggers():
                torch.manual_seed(0)
                result = self.tensordict(values)
        except ExployError:
            raise
        except Exception as error:
            raise PolicyError(
                f"The policy fails on the example under exploration {self._exploration.name}: "
                f"{type(error).__name__}: {error}"
            ) from error
        for key in (*self._chain.outputs, *(memory.written for memory in self._chain.memories)):
            if not isinstance(result.get(key, None), torch.Tensor):
                raise PolicyError(
                    f"Neither the policy nor its transforms write {shown(key)} as a tensor. They write "
                    f"{listed(_leaves(result))}."
                )
        return result

    def require_faithful(self, policy: Policy, inputs: Tensors) -> None:
        """Raise if a deterministic policy returns different actions for the same inputs, or if a stage changes.

        Raises:
            PolicyError: With the stages that change, or with the exploration type to use instead.
        """
        robots = self._layout.batch_size[0] if self._layout.batch_dims else 1
        states = tuple(state.initial(robots) for state in policy.states)
        others = tuple(value + 0.5 if value.dtype.is_floating_point else value for value in inputs)
        before = self._kept_by_stages()
        results = []
        with torch.no_grad(), torch.random.fork_rng(devices=[]), quiet_loggers():
            for seed, values in ((0, inputs), (1, inputs), (2, others)):
                torch.manual_seed(seed)
                results.append(policy.step(values, states)[0][0])
        after = self._kept_by_stages()
        changed = [name for name, value in after.items() if not _is_same(value, before.get(name))]
        if changed:
            labels = sorted({self._chain.stages[int(name.split(".")[0])].label for name in changed})
            raise PolicyError(
                f"{', '.join(labels)} changes its own state in each step ({', '.join(changed)}), which cannot be "
                "exported. Freeze it, or write the state to the tensordict and list its key in memories=."
            )
        _require_faithful((results[0], results[1]), self._exploration, _distributions_in(self.stages))

    def _kept_by_stages(self) -> dict[str, Any]:
        """The tensors and numbers of all modules, including those that are not registered."""
        kept: dict[str, Any] = dict(self.stages.named_parameters()) | dict(self.stages.named_buffers())
        for path, module in self.stages.named_modules():
            kept |= {f"{path}.{name}": value for name, value in vars(module).items() if _is_data(value)}
        return {
            name: value.detach().clone() if isinstance(value, torch.Tensor) else value
            for name, value in kept.items()
            if not (isinstance(value, torch.Tensor) and value.is_meta)
        }


def _is_data(value: Any) -> bool:
    return isinstance(value, torch.Tensor | int | float)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
    return type(one) is type(other) and bool(one == other or one != one)


def _leaves(tensordict: Any) -> list[Key]:
    return [(key,) if isinstance(key, str) else key for key in tensordict.keys(True, True)]


def exploration_of(exploration: Any) -> Any:
    """The exploration type: the given one, else the one set by `set_exploration_type`, else deterministic.

    Raises:
        PolicyError: If the type is unknown.
    """
    utils = library("torchrl.envs.utils", EXTRA)
    if exploration is None:
        exploration = utils.exploration_type()
    if exploration is None:
        return utils.ExplorationType.DETERMINISTIC
    try:
        return utils.ExplorationType(exploration.lower() if isinstance(exploration, str) else exploration)
    except ValueError as error:
        names = ", ".join(kind.name for kind in utils.ExplorationType)
        raise PolicyError(f"exploration must be one of {names}, or None, got {exploration!r}.") from error


def is_random(exploration: Any) -> bool:
    """Whether an exploration type draws random numbers."""
    return bool(exploration == library("torchrl.envs.utils", EXTRA).ExplorationType.RANDOM)


def _distributions_in(module: torch.nn.Module) -> str:
    """The distributions of a policy's heads, for messages."""
    found = [getattr(part, "distribution_class", None) for part in module.modules()]
    return ", ".join(sorted({getattr(kind, "__name__", str(kind)) for kind in found if kind is not None}))


def _require_faithful(results: tuple[Any, Any], exploration: Any, heads: str) -> None:
    """Raise if the actions are not a function of the observations, or contain NaN.

    Args:
        results: The actions of two calls with the same inputs and different random seeds.
        exploration: The exploration type of both calls.
        heads: The distributions in the policy.

    Raises:
        PolicyError: With the exploration type to use instead.
    """
    if is_random(exploration):
        return
    first, second = results
    advice = "Use exploration='deterministic', which every TorchRL head supports."
    head = f"its head {heads}" if heads else "it"
    if first.dtype.is_floating_point and bool(torch.isnan(first).any()):
        raise PolicyError(
            f"Under exploration {exploration.name} the policy returns NaN actions: {head} does not support this type. "
            f"{advice}"
        )
    if not torch.equal(first, second):
        raise PolicyError(
            f"Under exploration {exploration.name} the policy returns different actions for the same observation: "
            f"{head} has no closed form for it, so TorchRL estimates it from samples. {advice} If the policy should "
            "draw random numbers, use exploration='random'."
        )
