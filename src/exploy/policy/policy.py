"""A policy that was taken out of its training library: raw observations in, actions out, state in the open."""

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
        shape: Its sizes, with BATCH for the number of robots.
        dtype: Type of its elements.
        high: Integers are below this number; needed to try the policy at valid values.
        kind: What the port is; Kind.IS_INIT for a flag that the controller sets at the first step after a reset.
    """

    name: str
    shape: Shape
    dtype: torch.dtype = torch.float32
    high: int = 256
    kind: str | None = None

    def draw(self, batch: int, generator: torch.Generator) -> torch.Tensor:
        """Random values that the policy could meet."""
        shape = sized(self.shape, batch)
        if self.dtype == torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if self.dtype.is_floating_point:
            return torch.randn(shape, generator=generator).to(self.dtype)
        return torch.randint(0, self.high, shape, generator=generator).to(self.dtype)


@dataclass(frozen=True)
class PolicyState:
    """A value that a policy gives back and takes again at the next step.

    Args:
        name: Name of the memory; its ports are `NAME_in` and `NAME_out`.
        shape: Its sizes, with BATCH for the number of robots.
        dtype: Type of its elements.
        start: What it starts from, for one robot; zeros if not given.
    """

    name: str
    shape: Shape
    dtype: torch.dtype = torch.float32
    start: torch.Tensor | None = field(default=None, compare=False)

    @property
    def input_name(self) -> str:
        """Name of the port that takes the value."""
        return f"{self.name}_in"

    @property
    def output_name(self) -> str:
        """Name of the port that gives the next value."""
        return f"{self.name}_out"

    def initial(self, batch: int) -> torch.Tensor:
        """The value to start from."""
        shape = sized(self.shape, batch)
        if self.start is None:
            return torch.zeros(shape, dtype=self.dtype)
        return self.start.to(self.dtype).expand(shape).clone()


class Policy(ExportableActor):
    """A policy with all that its training library puts around the network: normalisation, head, squashing, clipping.

    `step()` is a pure function. The methods of ExportableActor keep the state between steps for it, so that a policy is
    an actor as well, for environments that are exported whole.

    Args:
        inputs: What the policy reads, in the order of `step()`.
        states: What it remembers, in the order of `step()`.
        outputs: Names of what it gives, the actions first.
        libraries: Packages that the policy was made with, whose versions the file notes.
        is_random: Whether it is meant to draw random numbers.
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
        """Compute outputs and the next states; changes nothing."""

    def forward(self, obs: torch.Tensor | Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Compute actions from raw observations, and remember the state.

        Args:
            obs: The observation, or a mapping of observations by the names of the inputs.

        Raises:
            ActorError: If the policy reads several inputs and gets one tensor, or one of them is missing.
        """
        inputs = self._inputs_of(obs)
        outputs, self._state = self.step(inputs, self._states_for(inputs))
        return outputs[0]

    def reset(self, dones: torch.Tensor) -> None:
        """Let the state of those robots whose flag in `dones` (batch_size,) is set start anew."""
        if self._state is None:
            return
        self._state = tuple(
            torch.where(_along(dones, spec.shape), spec.initial(1).to(value.device), value)
            for spec, value in zip(self.states, self._state, strict=True)
        )

    def get_state(self) -> Tensors | None:
        """The state between steps; that of one robot before the first step, and None if nothing is remembered."""
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
            raise ActorError(f"The policy reads {', '.join(names)}; give a dictionary of tensors with these keys.")
        missing = [name for name in names if name not in obs]
        if missing:
            raise ActorError(f"The policy reads {', '.join(names)}; {', '.join(missing)} is missing.")
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
    """Refuse two ports of one name."""
    names = [*(item.name for item in policy.inputs), *policy.outputs]
    names += [name for state in policy.states for name in (state.input_name, state.output_name)]
    clashes = sorted({name for name in names if names.count(name) > 1})
    if clashes:
        raise PolicyError(
            f"Two ports of the file would be called {', '.join(clashes)}: an observation must not have the name of "
            "another one, of the actions or of a memory. Rename it in the environment."
        )


def sized(shape: Shape, batch: int) -> tuple[int, ...]:
    """A shape for some number of robots."""
    return tuple(batch if size == BATCH else int(size) for size in shape)


def _along(flags: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Flags of robots, shaped so that they broadcast against a tensor."""
    sizes: Any = [-1 if size == BATCH else 1 for size in shape]
    return flags.bool().reshape(sizes)
