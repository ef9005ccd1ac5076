"""State of actors that had none when they were given to `add_actor_memory()`."""

import torch

from exploy.environment.actor import RUN_ONCE, hidden_states
from exploy.environment.context_manager import ContextManager
from exploy.errors import ActorError
from exploy.live.geometry import Geometry, has_memory


def require_no_new_state(manager: ContextManager) -> None:
    """Check that actors which had no state to register still have none, or that it is registered by now.

    Raises:
        ActorError: If one has state that is not registered.
    """
    for get_state in manager.stateless_actors:
        states = hidden_states(get_state)
        memories = [memory.fetch() for memory in manager.get_memory_components()] if states else []
        if not all(_is_one_of(state, memories) for state in states):
            raise ActorError(
                "The actor has a hidden state that is not registered: it had none when add_actor_memory() was called. "
                f"Run the actor once before add_actor_memory(), {RUN_ONCE}."
            )


def _is_one_of(state: object, memories: list[torch.Tensor]) -> bool:
    if not isinstance(state, torch.Tensor) or not has_memory(state):
        return False
    return any(Geometry.of(state).overlaps(Geometry.of(memory)) for memory in memories if has_memory(memory))
