"""Start values of memories that are taken from a reset of the environment."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Literal

import torch

from exploy.capture.initial_memory import actor_memories
from exploy.capture.program import Program
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.environment.actor import ExportableActor
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import ComponentError
from exploy.verify.start_values import RESET_WITHIN, Resets
from exploy.verify.stepped import Values

InitialMemory = Mapping[str, torch.Tensor] | Literal["reset", "found"] | None


@dataclasses.dataclass(frozen=True)
class MemoryStarts:
    """Where the start values of memories come from.

    Args:
        given: Start values by memory name.
        from_reset: Take the start values of all other memories from a reset; if False, they are the current values.
        reset_within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
        is_stated: Whether an export will store these values for certain.
    """

    given: Mapping[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    from_reset: bool = False
    reset_within: int = RESET_WITHIN
    is_stated: bool = True

    @classmethod
    def of(cls, initial_memory: InitialMemory, reset_within: int, *, others_from_reset: bool) -> "MemoryStarts":
        """Read the option `initial_memory` of an export or a check.

        Args:
            initial_memory: "reset", "found", None, or values by memory name.
            reset_within: Number of policy steps to wait for a reset.
            others_from_reset: Whether memories that a mapping does not name start from a reset.

        Raises:
            ComponentError: If it is something else.
        """
        if not isinstance(reset_within, int) or isinstance(reset_within, bool) or reset_within < 1:
            raise ComponentError(f"reset_within must be an integer of 1 or more, got {reset_within!r}.")
        if initial_memory is None or isinstance(initial_memory, str):
            if initial_memory not in (None, "reset", "found"):
                raise ComponentError(
                    f'initial_memory must be "reset", "found", or values by memory name, got {initial_memory!r}.'
                )
            return cls({}, initial_memory == "reset", reset_within)
        if not isinstance(initial_memory, Mapping):
            raise ComponentError(
                f'initial_memory must be "reset", "found", or values by memory name, got '
                f"{type(initial_memory).__name__}."
            )
        return cls(dict(initial_memory), others_from_reset, reset_within)


AS_FOUND = MemoryStarts()


def with_starts_of_reset(
    program: Program, env: ExportableEnvironment, actor: ExportableActor, starts: MemoryStarts
) -> tuple[Program, str | None]:
    """Return the program with start values from a reset, if these are asked for.

    The reset is undone so far as state is in Python and torch.

    Returns:
        The program, and None. If no reset was seen, the program as it is, and what happened.
    """
    names = {memory.name for memory in program.memories if not memory.carried} - set(starts.given)
    names -= actor_memories(env, actor) if starts.from_reset else names
    if not names:
        return program, None
    values, reason = _values(env, actor, program.written_by_observations, starts.reset_within)
    if values is None:
        return program, (
            f"{reason}. The start values of the memories are their current values. Implement reset(), pass a larger "
            'reset_within=, or give the values with initial_memory={…}; initial_memory="found" says that the current '
            "values are right."
        )
    return _with_starts(program, {name: value for name, value in values.items() if name in names}), None


def _values(
    env: ExportableEnvironment, actor: ExportableActor, written: Collection[str], within: int
) -> tuple[Values | None, str]:
    try:
        with Experiments(env, actor).trial():
            return Resets(env, actor, written, within).values(), f"No reset was seen within {within} policy steps"
    except Exception as error:
        return None, f"No reset was seen: the environment raised {type(error).__name__} ({error})"


def _with_starts(program: Program, values: Mapping[str, Any]) -> Program:
    memories = [
        dataclasses.replace(memory, initial=torch.from_numpy(values[memory.name]).to(memory.initial.dtype))
        if memory.name in values and not memory.carried
        else memory
        for memory in program.memories
    ]
    return dataclasses.replace(program, memories=memories)
