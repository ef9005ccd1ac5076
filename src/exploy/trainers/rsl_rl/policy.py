"""The inference of an rsl_rl policy as a pure step: the library's own call, with explicit hidden state."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.policy.policy import Policy, PolicyInput, PolicyState, Tensors, sized
from exploy.policy.recurrent import rnn_states

LIBRARIES = ("rsl-rl-lib",)


class RslRlPolicy(Policy):
    """The library's own inference, with the hidden state as input and output.

    Args:
        model: A copy of a model or policy, which this object owns.
        normalizer: The normaliser of the observation, if the model does not contain it.
        inputs: The inputs of the model.
        groups: The key of each input in the observations. None if the model takes one tensor.

    Raises:
        PolicyError: If inference fails, returns no actions, or keeps its state in an unknown way.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        normalizer: torch.nn.Module | None,
        inputs: Sequence[PolicyInput],
        groups: Sequence[str] | None,
    ):
        inference = Inference(model, normalizer, groups)
        memories = inference.memories(inputs)
        super().__init__(inputs, _states(memories), libraries=LIBRARIES)
        self.inference = inference
        self.memories = memories

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute the actions and the next hidden states."""
        with self._remembering(states):
            actions = self.inference(*inputs)
            return (actions,), tuple(value for memory in self.memories for value in memory.values)

    @contextlib.contextmanager
    def _remembering(self, states: Tensors) -> Iterator[None]:
        values = iter(states)
        try:
            for memory in self.memories:
                memory.values = tuple(next(values) for _ in memory.specs)
            yield
        finally:
            for memory in self.memories:
                memory.values = ()


class Inference(torch.nn.Module):
    """The library's inference call: the model itself, or `act_inference` of a policy."""

    def __init__(self, model: torch.nn.Module, normalizer: torch.nn.Module | None, groups: Sequence[str] | None):
        super().__init__()
        self.model = model
        self.normalizer = normalizer
        self.groups = groups

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute actions from the observations of each group."""
        observation: Any = inputs[0] if self.groups is None else dict(zip(self.groups, inputs, strict=True))
        if self.normalizer is not None:
            observation = self.normalizer(observation)
        infer: Any = getattr(self.model, "act_inference", self.model)
        actions: torch.Tensor = infer(observation)
        return actions

    def memories(self, inputs: Sequence[PolicyInput]) -> tuple["Memory", ...]:
        """The memories that inference writes to. Those of a critic or teacher are not included.

        Raises:
            PolicyError: If inference fails or returns no actions, or a recurrent model has no known memory.
        """
        candidates = [Memory(name, module) for name, module in self.model.named_modules() if Memory.is_one(module)]
        for memory in candidates:
            memory.values = ()
        self._try(inputs)
        written = tuple(memory for memory in candidates if memory.values)
        for memory in written:
            memory.values = ()
        if getattr(self.model, "is_recurrent", False) and not written:
            raise PolicyError(
                f"{type(self.model).__name__} is marked as recurrent, but no hidden state was found: looked for "
                "modules with `rnn` and `hidden_state` or `hidden_states` that inference writes to."
            )
        return written

    def _try(self, inputs: Sequence[PolicyInput]) -> None:
        batch, kind = 2, type(self.model).__name__
        try:
            with torch.no_grad():
                actions = self(*(torch.zeros(sized(item.shape, batch), dtype=item.dtype) for item in inputs))
        except NotImplementedError as error:
            head = type(getattr(self.model, "distribution", None)).__name__
            raise PolicyError(
                f"{kind} has no deterministic form, which is required for the export: inference with the distribution "
                f"{head} is not implemented. {error}".strip()
            ) from error
        except Exception as error:
            shapes = {item.name: tuple(item.shape) for item in inputs}
            raise PolicyError(
                f"Inference of {kind} fails for observations of shapes {shapes}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(actions, torch.Tensor) or actions.ndim != 2 or len(actions) != batch:
            got = tuple(actions.shape) if isinstance(actions, torch.Tensor) else type(actions).__name__
            raise PolicyError(
                f"Inference of {kind} must return actions of shape (batch, actions), got {got} for a batch of {batch}."
            )


class Memory:
    """An rsl_rl module that keeps the hidden state of its LSTM or GRU in an attribute."""

    _ATTRIBUTES = ("hidden_state", "hidden_states")

    def __init__(self, name: str, module: torch.nn.Module):
        self.name = name
        self.module = module
        self.attribute = next(name for name in self._ATTRIBUTES if hasattr(module, name))

    @classmethod
    def is_one(cls, module: torch.nn.Module) -> bool:
        """Whether a module is such a memory."""
        is_rnn = isinstance(getattr(module, "rnn", None), torch.nn.RNNBase)
        return is_rnn and any(hasattr(module, name) for name in cls._ATTRIBUTES)

    @property
    def specs(self) -> list[PolicyState]:
        """The parts of the hidden state.

        Raises:
            PolicyError: If the recurrent network cannot run step by step.
        """
        rnn: Any = self.module.rnn
        return rnn_states(rnn)

    @property
    def values(self) -> Tensors:
        """The parts of the hidden state, or an empty tuple if it is not set."""
        held = getattr(self.module, self.attribute)
        if held is None:
            return ()
        return (held,) if isinstance(held, torch.Tensor) else tuple(held)

    @values.setter
    def values(self, values: Tensors) -> None:
        held = None if not values else values[0] if len(values) == 1 else values
        setattr(self.module, self.attribute, held)


def _states(memories: Sequence[Memory]) -> list[PolicyState]:
    """The parts of all hidden states. With several memories, the names contain the module names."""
    if len(memories) == 1:
        return memories[0].specs
    return [
        dataclasses.replace(state, name=f"{memory.name.replace('.', '_')}_{state.name}")
        for memory in memories
        for state in memory.specs
    ]
