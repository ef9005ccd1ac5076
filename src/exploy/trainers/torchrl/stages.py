"""The stages from raw observations to actions.

Each stage has the keys that it reads, writes and remembers. `chain_of()` keeps the stages that the outputs depend on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.trainers.torchrl.tensordicts import IS_INIT, NEXT, Key, listed, shown

Keys = frozenset[Key]
Pairs = Sequence[tuple[Key, Key]]


@dataclass(frozen=True)
class MemoryKeys:
    """A value that is read under one key, and whose next value is written under another key.

    Args:
        read: The key of the current value.
        written: The key of the next value after a step.
        start: The initial value for one robot. Default: zeros.
        is_optional: Whether the first step works without the value.
    """

    read: Key
    written: Key
    start: torch.Tensor | None = field(default=None, compare=False)
    is_optional: bool = field(default=False, compare=False)


class Stage(torch.nn.Module):
    """A function of a tensordict.

    Args:
        label: The name in messages.
    """

    def __init__(self, label: str):
        super().__init__()
        self.label = label

    def needs(self, wanted: Keys) -> Keys | None:
        """The keys needed before this stage to have `wanted` after it. None if it writes none of them."""
        raise NotImplementedError

    def memories(self) -> list[MemoryKeys]:
        """The memories of this stage."""
        return []

    def flags(self) -> set[Key]:
        """The keys of flags that mark the first step after a reset."""
        return set()

    def writes(self) -> set[Key]:
        """All keys that it writes."""
        return set()

    def forward(self, tensordict: Any) -> Any:
        """Run the stage. The given tensordict may be changed."""
        raise NotImplementedError


class PerKey(Stage):
    """A function of one tensor, applied to several keys."""

    def __init__(self, label: str, pairs: Pairs, function: Callable[[torch.Tensor], torch.Tensor]):
        super().__init__(label)
        self.pairs = list(pairs)
        self.function = function
        self.owner = _module_of(function)

    def needs(self, wanted: Keys) -> Keys | None:
        """Replace each written key by the key that it is computed from."""
        used = [(read, written) for read, written in self.pairs if written in wanted]
        if not used:
            return None
        return (wanted - {written for _, written in used}) | {read for read, _ in used}

    def writes(self) -> set[Key]:
        """The written keys of the pairs."""
        return {written for _, written in self.pairs}

    def forward(self, tensordict: Any) -> Any:
        """Apply the function to the keys that exist."""
        for read, written in self.pairs:
            value = tensordict.get(read, None)
            if value is not None:
                tensordict.set(written, self.function(value))
        return tensordict


class Block(Stage):
    """A function that reads and writes fixed sets of keys."""

    def __init__(self, label: str, reads: Iterable[Key], writes: Iterable[Key], function: Callable[[Any], Any]):
        super().__init__(label)
        self._reads = frozenset(reads)
        self._writes = frozenset(writes)
        self.function = function
        self.owner = _module_of(function)

    def needs(self, wanted: Keys) -> Keys | None:
        """All keys that it reads, if one of its written keys is wanted."""
        if not wanted & self._writes:
            return None
        return (wanted - self._writes) | self._reads

    def writes(self) -> set[Key]:
        """The keys that it writes."""
        return set(self._writes)

    def forward(self, tensordict: Any) -> Any:
        """Call the function."""
        return self.function(tensordict)


class Everything(Stage):
    """A function of the whole tensordict.

    Args:
        label: The name in messages.
        function: The function.
        has_own_keys: Whether it may read and write undeclared keys. Otherwise it keeps the set of keys.
    """

    def __init__(self, label: str, function: Callable[[Any], Any], *, has_own_keys: bool = False):
        super().__init__(label)
        self.function = function
        self.has_own_keys = has_own_keys

    def needs(self, wanted: Keys) -> Keys | None:
        """The same keys."""
        return wanted

    def forward(self, tensordict: Any) -> Any:
        """Call the function."""
        return self.function(tensordict)


class Provided(Stage):
    """Values that the environment provides, so the file must provide them too.

    Args:
        label: The name in messages.
        remembered: Values that are kept between steps.
        flags: Flags that mark the first step after a reset.
        step: Computes the next value of each memory. Default: the value does not change.
    """

    def __init__(
        self,
        label: str,
        remembered: Sequence[MemoryKeys] = (),
        flags: Iterable[Key] = (),
        step: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ):
        super().__init__(label)
        self._remembered = list(remembered)
        self._flags = set(flags)
        self._step = step

    def needs(self, wanted: Keys) -> Keys | None:
        """The same keys, if one of them is provided here."""
        provided = self._flags | {memory.read for memory in self._remembered}
        return wanted if wanted & provided else None

    def memories(self) -> list[MemoryKeys]:
        """The values that are kept between steps."""
        return list(self._remembered)

    def flags(self) -> set[Key]:
        """The flags that mark the first step."""
        return set(self._flags)

    def forward(self, tensordict: Any) -> Any:
        """Compute the next values."""
        for memory in self._remembered:
            value = tensordict.get(memory.read, None)
            if value is not None and self._step is not None:
                tensordict.set(memory.written, self._step(value))
        return tensordict


class Refused(Block):
    """A part that cannot be exported. It is an error only if something reads what it writes.

    Args:
        label: The name in messages.
        reads: The keys that it reads.
        writes: The keys that it writes.
        reason: The error message.
    """

    def __init__(self, label: str, reads: Iterable[Key], writes: Iterable[Key], reason: str):
        super().__init__(label, reads, writes, _unchanged)
        self.reason = reason


def _module_of(function: Any) -> torch.nn.Module | None:
    """The module that a method belongs to. Registering it makes its tensors part of the stage."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, torch.nn.Module) and not isinstance(function, torch.nn.Module) else None


def _unchanged(tensordict: Any) -> Any:
    return tensordict


@dataclass(frozen=True)
class Chain:
    """Stages in order, with their inputs.

    Args:
        stages: The stages.
        readers: For each key that is not written by a stage before, the stage that reads it.
        memories: The memories of the stages.
        flags: The read keys of flags that mark the first step after a reset.
        outputs: The keys of the outputs.
    """

    stages: Sequence[Stage]
    readers: Mapping[Key, str]
    memories: Sequence[MemoryKeys]
    flags: Keys
    outputs: Sequence[Key]

    @property
    def observed(self) -> list[Key]:
        """The keys that must come from an example: neither memories nor reset flags."""
        kept = {memory.read for memory in self.memories}
        return [key for key in self.readers if key not in kept and key not in self.flags]

    def run(self, tensordict: Any) -> Any:
        """Run all stages on a tensordict. The given tensordict may be changed."""
        for stage in self.stages:
            tensordict = stage(tensordict)
        return tensordict


def chain_of(stages: Sequence[Stage], outputs: Sequence[Key], named: Mapping[Key, Key | None]) -> Chain:
    """Keep the stages that the outputs, and the memories they need, depend on.

    Args:
        stages: All stages, in order.
        outputs: The keys to compute.
        named: Memories named by the user: the read key, and the written key of the next value or None.

    Raises:
        PolicyError: If a needed stage cannot be exported, or a named memory is not read or not written.
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
            f"memories= contains {listed(unread)}, but the policy reads {listed(readers)}. "
            "Use keys that the policy reads."
        )
    _require_written(stages, outputs)
    flags = {key for stage in stages for key in stage.flags()} | {key for key in readers if key[-1:] == IS_INIT}
    return Chain(kept, readers, memories, frozenset(flags & set(readers)), list(outputs))


def _require_written(stages: Sequence[Stage], outputs: Sequence[Key]) -> None:
    written = {key for stage in stages for key in stage.writes()}
    unwritten = [key for key in outputs if key not in written]
    if unwritten and not any(isinstance(stage, Everything) and stage.has_own_keys for stage in stages):
        raise PolicyError(
            f"out_keys contains {listed(unwritten)}, but the policy and its transforms write {listed(written)}."
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
    """Combine two descriptions of one memory: one stage provides the initial value, the other updates it."""
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
        f"memories= contains {shown(key)}, but no stage writes its next value as {shown((NEXT, *key))} or as "
        f"{shown(key)}. Give a dictionary {{read key: written key}}."
    )
