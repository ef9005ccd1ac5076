"""Finds the stages that the outputs of a policy depend on, and the keys that these read and remember."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from exploy.errors import PolicyError
from exploy.trainers.torchrl.keys import IS_INIT, NEXT, Key, listed, shown
from exploy.trainers.torchrl.stages import Everything, Keys, MemoryKeys, Refused, Stage


@dataclass(frozen=True)
class Chain:
    """Stages in their order, with what must be given to them.

    Args:
        stages: The stages.
        readers: For each key that is read from outside, the stage that reads it.
        memories: What they remember.
        flags: Keys among those read that tell the first step after a reset.
        outputs: The keys of the outputs.
    """

    stages: Sequence[Stage]
    readers: Mapping[Key, str]
    memories: Sequence[MemoryKeys]
    flags: Keys
    outputs: Sequence[Key]

    @property
    def observed(self) -> list[Key]:
        """What must come from an example: neither remembered nor told by the controller."""
        kept = {memory.read for memory in self.memories}
        return [key for key in self.readers if key not in kept and key not in self.flags]


def chain_of(stages: Sequence[Stage], outputs: Sequence[Key], named: Mapping[Key, Key | None]) -> Chain:
    """Keep the stages that the outputs, or memories that these depend on, come from.

    Args:
        stages: All stages, in their order.
        outputs: The keys to compute.
        named: Memories that the user named: where they are read, and where the next value is written if that is known.

    Raises:
        PolicyError: If a stage that is needed cannot be exported, or a named memory is none.
    """
    wanted = frozenset(outputs)
    while True:
        kept, readers = _slice(stages, wanted)
        memories = _memories(kept, stages, readers, named)
        missing = {memory.written for memory in memories} - wanted
        missing = {key for key in missing if any(key in stage.writes() for stage in stages)}
        if not missing:
            break
        wanted |= missing
    for stage in kept:
        if isinstance(stage, Refused):
            raise PolicyError(stage.reason)
    unread = [key for key in named if key not in readers]
    if unread:
        raise PolicyError(
            f"memories= names {listed(unread)}, but what the policy reads is {listed(readers)}. "
            "Name keys that it reads."
        )
    _refuse_unwritten(stages, outputs)
    flags = {key for stage in stages for key in stage.flags()} | {key for key in readers if key[-1:] == IS_INIT}
    return Chain(kept, readers, memories, frozenset(flags & set(readers)), list(outputs))


def _refuse_unwritten(stages: Sequence[Stage], outputs: Sequence[Key]) -> None:
    written = {key for stage in stages for key in stage.writes()}
    unwritten = [key for key in outputs if key not in written]
    if unwritten and not any(isinstance(stage, Everything) and stage.has_own_keys for stage in stages):
        raise PolicyError(
            f"out_keys names {listed(unwritten)}, but the policy and its transforms write {listed(written)}."
        )


def _slice(stages: Sequence[Stage], wanted: Keys) -> tuple[list[Stage], dict[Key, str]]:
    kept: list[Stage] = []
    readers: dict[Key, str] = {}
    for stage in reversed(stages):
        before = stage.needs(wanted)
        if before is None:
            continue
        kept.insert(0, stage)
        readers |= dict.fromkeys(before - wanted, stage.label)
        wanted = before
    return kept, {key: readers.get(key, "the outputs") for key in sorted(wanted)}


def _memories(
    kept: Sequence[Stage], stages: Sequence[Stage], readers: Iterable[Key], named: Mapping[Key, Key | None]
) -> list[MemoryKeys]:
    written = {key for stage in stages for key in stage.writes()}
    found: dict[Key, MemoryKeys] = {}
    for memory in (memory for stage in kept for memory in stage.memories()):
        if memory.read in readers:
            found[memory.read] = _merged(found.get(memory.read), memory)
    for key in readers:
        if (NEXT, *key) in written and (key not in found or found[key].written == key):
            found[key] = _merged(found.get(key), MemoryKeys(key, (NEXT, *key)))
    for key, target in named.items():
        if key in readers and (key not in found or target is not None):
            start = found[key].start if key in found else None
            found[key] = MemoryKeys(key, target or _target(key, written), start)
    return list(found.values())


def _merged(first: MemoryKeys | None, second: MemoryKeys) -> MemoryKeys:
    """What two stages tell of one memory: the one starts it, the other goes on with it."""
    if first is None:
        return second
    written = first.written if second.written == second.read else second.written
    start = second.start if first.start is None else first.start
    return MemoryKeys(first.read, written, start, first.is_optional or second.is_optional)


def _target(key: Key, written: set[Key]) -> Key:
    for target in ((NEXT, *key), key):
        if target in written:
            return target
    raise PolicyError(
        f"memories= names {shown(key)}, but nothing writes its next value, neither as {shown((NEXT, *key))} nor as "
        f"{shown(key)}. Give a dictionary {{read key: written key}}."
    )
