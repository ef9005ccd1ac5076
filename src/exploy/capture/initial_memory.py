"""Initial values of memories."""

from collections.abc import Mapping

import torch

from exploy.environment.actor import ExportableActor, has_actor_reset
from exploy.environment.components import Memory, describe
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.tensor_copies import cpu_copy, to_numpy
from exploy.environment.validation import validated_tensor
from exploy.errors import ActorError, ComponentError
from exploy.live.geometry import Geometry
from exploy.live.module_tensors import tensors_kept_by
from exploy.live.snapshot import Snapshot


def initial_values(
    env: ExportableEnvironment,
    actor: ExportableActor,
    roots: dict[str, object],
    overrides: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """The initial value of every Memory, by full name.

    A value in `overrides` has priority. Otherwise, states of the actor get their value after `actor.reset()` of all
    environments, which is run on a snapshot. All other memories get their current value.

    Raises:
        ComponentError: If the name of an override is not a Memory, or its value does not fit the Memory.
    """
    memories = {memory.name: memory for memory in env.context_manager().get_memory_components()}
    values = {name: cpu_copy(memory.fetch()) for name, memory in memories.items()}
    values |= _after_actor_reset(env, actor, roots, memories, values)
    for name, value in overrides.items():
        memory = memories.get(name) or env.context_manager().get_component_by_name(name)
        if not isinstance(memory, Memory):
            known = ", ".join(memories) or "none"
            raise ComponentError(f"initial_memory has {name!r}, which is not a Memory. Registered memories: {known}.")
        values[memory.name] = _fitting(memory, value, values[memory.name])
    return values


def actor_memories(env: ExportableEnvironment, actor: ExportableActor) -> set[str]:
    """Return the names of the memories that are the actor's own states, and which `actor.reset()` resets."""
    memories = env.context_manager().get_memory_components()
    if not memories:
        return set()
    kept = tensors_kept_by(actor) if has_actor_reset(actor) else ()
    states = [Geometry.of(state) for state in (*(actor.get_state() or ()), *kept)]
    return {memory.name for memory in memories if _is_one_of(memory, states)}


def _is_one_of(memory: Memory, states: list[Geometry]) -> bool:
    try:
        place = Geometry.of(memory.fetch())
    except ActorError:
        return True  # the actor has dropped its state
    return any(place.overlaps(state) for state in states)


def _after_actor_reset(
    env: ExportableEnvironment,
    actor: ExportableActor,
    roots: dict[str, object],
    memories: dict[str, Memory],
    found: dict[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    names = actor_memories(env, actor)
    owned = {name: memory for name, memory in memories.items() if name in names}
    if not owned:
        return {}
    batch_size = validated_tensor(env, "empty_actor_observations").shape[0]
    snapshot, had_state = Snapshot(roots), bool(actor.get_state())
    with snapshot, snapshot.gradient_mode():
        actor.reset(torch.ones(batch_size, dtype=torch.bool, device=env.empty_actions().device))
        if had_state and not actor.get_state():
            return {name: torch.zeros_like(found[name]) for name in owned}
        values = {name: to_numpy(memory.fetch()) for name, memory in owned.items()}
    return {name: torch.from_numpy(value) for name, value in values.items()}


def _fitting(memory: Memory, value: object, example: torch.Tensor) -> torch.Tensor:
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ComponentError(f"initial_memory for {memory.name!r} must be a tensor: {error}.") from error
    if tensor.shape != example.shape:
        raise ComponentError(
            f"initial_memory for {memory.name!r} must have {describe(example)}, got {describe(tensor)}."
        )
    return tensor.to(example.dtype).clone()
