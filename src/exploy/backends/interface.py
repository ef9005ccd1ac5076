"""What a lowered program takes and gives."""

from dataclasses import dataclass

import torch

from exploy.capture.program import Program
from exploy.contract import STEP_COUNT


@dataclass(frozen=True)
class Tensor:
    """A port: its name, its numpy dtype, and its sizes; a string stands for a size that is chosen at load."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Interface:
    """The ports of a lowered program.

    Args:
        inputs: What goes in.
        outputs: What comes out.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def input_names(self) -> list[str]:
        """Names of what goes in."""
        return [item.name for item in self.inputs]


def interface_of(program: Program) -> Interface:
    """The interface of a program; inputs that no output depends on are left out, as in all files."""
    more = _for_more_robots(program)
    results, others = (program.run(values)[0] for values in (program.examples, more))
    inputs = [_tensor(name, program.examples[name], more[name]) for name in program.used_inputs]
    if program.sub_step_outputs:
        inputs.insert(0, Tensor(STEP_COUNT, "int32", ()))
    outputs = [_tensor(name, results[name], others[name]) for name in results]
    return Interface(inputs=tuple(inputs), outputs=tuple(outputs))


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
