"""A policy extracted from its training library, from raw observations to actions, with explicit state."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from exploy.environment.actor import ExportableActor
from exploy.errors import ActorError, PolicyError

BATCH = "batch"
ACTIONS = "actions"

Shape = tuple[int | str, ...]
Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class PolicyInput:
    """An observation that a policy reads.

    Args:
        name: Name of the port.
        shape: Its shape, with BATCH for the number of robots.
        dtype: The dtype of its elements.
        high: Exclusive upper bound of integer values. Used to run the policy on valid values.
        kind: The kind of the port. PortKind.IS_INIT is a flag that the controller sets in the first step after a reset.
    """

    name: str
    shape: Shape
    dtype: torch.dtype = torch.float32
    high: int = 256
    kind: str | None = None

    def draw(self, batch: int, generator: torch.Generator) -> torch.Tensor:
        """Draw random values that are valid inputs of the policy."""
        shape = sized(self.shape, batch)
        if self.dtype == torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if self.dtype.is_floating_point:
            return torch.randn(shape, generator=generator).to(self.dtype)
        return torch.randint(0, self.high, shape, generator=generator).to(self.dtype)


@dataclass(frozen=True)
class PolicyState:
    """A value that a policy returns and gets as input in the next step.

    Args:
        name: Name of the memory; its ports are `NAME_in` and `NAME_out`.
        shape: Its shape, with BATCH for the number of robots.
        dtype: The dtype of its elements.
        start: The initial value for one robot. Default: zeros.
    """

    name: str
    shape: Shape
    dtype: torch.dtype = torch.float32
    start: torch.Tensor | None = field(default=None, compare=False)

    @property
    def input_name(self) -> str:
        """Name of the input port."""
        return f"{self.name}_in"

    @property
    def output_name(self) -> str:
        """Name of the output port with the next value."""
        return f"{self.name}_out"

    def initial(self, batch: int) -> torch.Tensor:
        """The initial value."""
        shape = sized(self.shape, batch)
        if self.start is None:
            return torch.zeros(shape, dtype=self.dtype)
        return self.start.to(self.dtype).expand(shape).clone()


class Policy(ExportableActor):
    """A policy with all processing of its training library: normalisation, head, squashing, clipping.

    `step()` is a pure function. The methods of ExportableActor keep the state between steps, so a policy can also be
    exported as the actor of an environment.

    Args:
        inputs: The inputs of the policy, in the order of `step()`.
        states: The states of the policy, in the order of `step()`.
        outputs: Names of the outputs, the actions first.
        libraries: Packages that created the policy. Their versions are stored in the file.
        is_random: Whether the policy is allowed to draw random numbers.
    """

    def __init__(
        self,
        inputs: Sequence[PolicyInput],
        states: Sequence[PolicyState] = (),
        outputs: Sequence[str] = (ACTIONS,),
        libraries: Sequence[str] = (),
        is_random: bool = False,
    ):
        super().__init__()
        self.inputs = tuple(inputs)
        self.states = tuple(states)
        self.outputs = tuple(outputs)
        self.libraries = tuple(libraries)
        self.is_random = is_random
        self._state: Tensors | None = None
        _require_distinct_names(self)

    @abstractmethod
    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute the outputs and the next states, without changing the policy."""

    def forward(self, obs: torch.Tensor | Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Compute actions from raw observations, and keep the state.

        Args:
            obs: The observation, or a mapping from input names to observations.

        Raises:
            ActorError: If the policy reads several inputs and gets one tensor, or one of them is missing.
        """
        inputs = self._inputs_of(obs)
        outputs, self._state = self.step(inputs, self._states_for(inputs))
        return outputs[0]

    def reset(self, dones: torch.Tensor) -> None:
        """Reset the state of the robots whose flag in `dones` (batch_size,) is set."""
        if self._state is None:
            return
        self._state = tuple(
            torch.where(_along(dones, spec.shape), spec.initial(1).to(value.device), value)
            for spec, value in zip(self.states, self._state, strict=True)
        )

    def get_state(self) -> Tensors | None:
        """The state between steps. Before the first step, the initial state of one robot. None without states."""
        if not self.states:
            return None
        if self._state is None:
            device = next((tensor.device for tensor in (*self.parameters(), *self.buffers())), torch.device("cpu"))
            self._state = tuple(state.initial(1).to(device) for state in self.states)
        return self._state

    def _inputs_of(self, obs: torch.Tensor | Mapping[str, torch.Tensor]) -> Tensors:
        names = [item.name for item in self.inputs]
        if isinstance(obs, torch.Tensor):
            if len(names) == 1:
                return (obs,)
            raise ActorError(
                f"The policy reads {', '.join(names)}, but got one tensor. Give a dictionary with these keys."
            )
        missing = [name for name in names if name not in obs]
        if missing:
            raise ActorError(f"The policy reads {', '.join(names)}, but {', '.join(missing)} is missing.")
        return tuple(obs[name] for name in names)

    def _states_for(self, inputs: Tensors) -> Tensors:
        if not self.states:
            return ()
        batch = next(
            tensor.shape[item.shape.index(BATCH)]
            for item, tensor in zip(self.inputs, inputs, strict=True)
            if BATCH in item.shape
        )
        state = self._state
        if state is None or state[0].shape[self.states[0].shape.index(BATCH)] != batch:
            return tuple(item.initial(batch).to(inputs[0].device) for item in self.states)
        return state


def _require_distinct_names(policy: Policy) -> None:
    """Raise if two ports have the same name."""
    names = [*(item.name for item in policy.inputs), *policy.outputs]
    names += [name for state in policy.states for name in (state.input_name, state.output_name)]
    clashes = sorted({name for name in names if names.count(name) > 1})
    if clashes:
        raise PolicyError(
            f"Several ports of the file would have the name {', '.join(clashes)}. The names of observations, actions "
            "and memories must differ. Rename the observation in the environment."
        )


def sized(shape: Shape, batch: int) -> tuple[int, ...]:
    """A shape for a given number of robots."""
    return tuple(batch if size == BATCH else int(size) for size in shape)


def _along(flags: torch.Tensor, shape: Shape) -> torch.Tensor:
    """The flags of robots, reshaped to broadcast against a tensor of this shape."""
    sizes: Any = [-1 if size == BATCH else 1 for size in shape]
    return flags.bool().reshape(sizes)
