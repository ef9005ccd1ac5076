"""Exportable actors: the policy network and its state between steps."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from exploy.environment.components import Memory
from exploy.environment.context_manager import ContextManager, StateGetter
from exploy.errors import ActorError

RUN_ONCE = "for example `actor(env.empty_actor_observations())`"


class ExportableActor(torch.nn.Module, ABC):
    """Interface of an actor that can be exported."""

    @abstractmethod
    def forward(self, obs: Any) -> torch.Tensor:
        """Compute actions from a batch of observations: a tensor of shape (batch_size, obs_dim), or groups of tensors.

        The actor gets what `compute_observations()` of the environment returns.
        """

    def reset(self, dones: torch.Tensor) -> None:
        """Reset the internal state of the environments whose flag in `dones` (batch_size,) is True."""

    def get_state(self) -> tuple[torch.Tensor, ...] | None:
        """The internal state (for example of an RNN) as a tuple of tensors, or None if the actor has no state."""
        return None


class _WrappedActor(ExportableActor):
    """Wraps a plain module as an ExportableActor; forwards `reset` and `get_state` if the module has them."""

    def __init__(self, actor: torch.nn.Module):
        super().__init__()
        self.actor = actor
        self.training = getattr(actor, "training", False)  # a frozen script module has no such flag

    def forward(self, obs: Any) -> torch.Tensor:
        result: torch.Tensor = self.actor(obs)
        return result

    def reset(self, dones: torch.Tensor) -> None:
        reset: Any = getattr(self.actor, "reset", None)
        if reset is not None:
            reset(dones)

    def get_state(self) -> tuple[torch.Tensor, ...] | None:
        get_state: Any = getattr(self.actor, "get_state", None)
        if get_state is None:
            return None
        state: tuple[torch.Tensor, ...] | None = get_state()
        return state


def make_exportable_actor(actor: torch.nn.Module) -> ExportableActor:
    """Wrap a module as an ExportableActor; its own `reset(dones)` and `get_state()` are used.

    Raises:
        ActorError: If it is not a torch.nn.Module.
    """
    if isinstance(actor, ExportableActor):
        return actor
    if not isinstance(actor, torch.nn.Module):
        raise ActorError(
            f"An actor must be a torch.nn.Module, got {type(actor).__name__}. "
            "Wrap a plain function in a module with a forward(obs) method."
        )
    return _WrappedActor(actor)


def unwrapped(actor: torch.nn.Module) -> torch.nn.Module:
    """The user module inside an actor from make_exportable_actor()."""
    return actor.actor if isinstance(actor, _WrappedActor) else actor


def has_actor_reset(actor: ExportableActor) -> bool:
    """Whether an actor, or the module inside, implements `reset()`."""
    if isinstance(actor, _WrappedActor):
        return callable(getattr(actor.actor, "reset", None))
    return type(actor).reset is not ExportableActor.reset


def add_actor_memory(context_manager: ContextManager, get_hidden_states_func: StateGetter) -> None:
    """Register each hidden state of an actor as a Memory named `actor_state_0`, `actor_state_1`, …

    Nothing is registered for an actor without state. The export asks it again, and raises an ActorError if it has
    state then. So run a recurrent actor once before this call.

    Args:
        context_manager: The context manager that gets the memories.
        get_hidden_states_func: Returns the current hidden states, usually `actor.get_state`.
    """
    states = hidden_states(get_hidden_states_func)
    if not states:
        context_manager.add_stateless_actor(get_hidden_states_func)
        return

    def callback(index: int) -> Callable[[], torch.Tensor]:
        return lambda: _registered_states(get_hidden_states_func, len(states))[index]

    context_manager.add_components(
        [Memory(name=f"actor_state_{index}", get_from_env_cb=callback(index)) for index in range(len(states))]
    )


def hidden_states(get_hidden_states_func: StateGetter) -> tuple[torch.Tensor, ...]:
    """The current hidden states of an actor; empty if it has none."""
    states = get_hidden_states_func()
    return (states,) if isinstance(states, torch.Tensor) else states or ()


def _registered_states(get_hidden_states_func: StateGetter, expected: int) -> tuple[torch.Tensor, ...]:
    states = hidden_states(get_hidden_states_func)
    if not states:
        raise ActorError(
            f"The actor has no hidden state, but had {expected} when add_actor_memory() was called. Run it once, "
            f"{RUN_ONCE}."
        )
    if len(states) != expected:
        raise ActorError(
            f"The actor had {expected} hidden states when registered but has {len(states)} now. "
            "The number must not change."
        )
    return states
