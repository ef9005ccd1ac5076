"""What a lowered program takes and gives."""

from dataclasses import dataclass, field

import torch

from exploy.capture.program import Program, ProgramMemory
from exploy.contract import STEP_COUNT


@dataclass(frozen=True)
class Tensor:
    """A port: its name, the type of its elements as numpy calls it, and its sizes; a text for one that is open."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Interface:
    """The ports of a lowered program, and what was found about them.

    Args:
        inputs: What goes in.
        outputs: What comes out.
        unread_memories: Carried memories that no sub-step reads, and that are left out.
        sub_step_inputs: For each output of a sub-step, the Inputs that it is computed from.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    unread_memories: frozenset[str] = frozenset()
    sub_step_inputs: dict[str, list[str]] = field(default_factory=dict)

    @property
    def input_names(self) -> list[str]:
        """Names of what goes in."""
        return [item.name for item in self.inputs]


def interface_of(program: Program) -> Interface:
    """The interface of a program as it is: inputs that no output depends on are left out, as in all files."""
    default, sub_step = program.sources
    reads = {name: set(sources.inputs) for name, sources in sub_step.items()}
    unread = unread_memories(program, reads)
    gone = {memory.output_name for memory in program.memories if memory.name in unread}
    used = {
        name
        for step in (default, sub_step)
        for output, sources in step.items()
        if output not in gone
        for name in sources.inputs
    }
    more = _for_more_robots(program)
    results, others = (program.run(values)[0] for values in (program.examples, more))
    inputs = [_tensor(name, value, more[name]) for name, value in program.examples.items() if name in used]
    if sub_step:
        inputs.insert(0, Tensor(STEP_COUNT, "int32", ()))
    registered = {port.name for port in program.inputs}
    return Interface(
        inputs=tuple(inputs),
        outputs=tuple(_tensor(name, results[name], others[name]) for name in results if name not in gone),
        unread_memories=frozenset(unread),
        sub_step_inputs={name: sorted(reads[name] & registered) for name in sub_step if name not in gone},
    )


def unread_memories(program: Program, reads: dict[str, set[str]]) -> set[str]:
    """Carried memories that nothing but such memories depends on.

    Args:
        program: The program.
        reads: For each output of a sub-step, the names of what it is computed from.
    """
    carried = [memory for memory in program.memories if memory.carried]
    return {memory.name for memory in carried if not _is_read(memory, carried, reads)}


def _is_read(memory: ProgramMemory, carried: list[ProgramMemory], reads: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    pending = [memory]
    outputs = {item.output_name: item for item in carried}
    while pending:
        current = pending.pop()
        seen.add(current.name)
        for output, inputs in reads.items():
            if current.input_name not in inputs:
                continue
            if output not in outputs:
                return True
            if outputs[output].name not in seen:
                pending.append(outputs[output])
    return False


def _for_more_robots(program: Program) -> dict[str, torch.Tensor]:
    """The examples, with another size wherever the program leaves that open."""
    values = program.examples
    for name, axis in program.batch_axes.items():
        values[name] = torch.cat([values[name], values[name]], dim=axis)
    return values


def _tensor(name: str, value: torch.Tensor, other: torch.Tensor) -> Tensor:
    """A port with the type and sizes of a tensor; sizes in which another one differs are open."""
    pairs = zip(value.shape, other.shape, strict=True)
    shape = tuple(int(size) if size == second else "batch" for size, second in pairs)
    return Tensor(name, str(value.dtype).removeprefix("torch."), shape)
