"""The result of a capture: pure functions for both rates, with named ports. Torch, but neither environment nor ONNX."""

import copy
import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from exploy.exporter.capture.location import UNKNOWN
from exploy.exporter.capture.recording import WHERE

ACTIONS = "actions"
OBSERVATIONS = "obs"


@dataclass(frozen=True)
class Port:
    """A named tensor that goes into the program."""

    name: str
    example: torch.Tensor


@dataclass(frozen=True)
class MemoryPort:
    """A value that the program gives back and takes again at the next call.

    `carried` ones were not registered: they cross from the policy step to its sub-steps and have no meaning before
    the first policy step.
    """

    name: str
    input_name: str
    output_name: str
    initial: torch.Tensor
    carried: bool = False
    written_by_observations: bool = False


@dataclass(frozen=True)
class FrozenTensor:
    """A tensor of the environment that was read, not registered, and is stored in the program with its value."""

    name: str
    where: str
    value: torch.Tensor


@dataclass(frozen=True)
class Program:
    """Both paths of an environment as one graph module without side effects.

    The module takes the values of `inputs` and `memories` in that order, and returns the values of `default_outputs`
    followed by those of `sub_step_outputs`.
    """

    module: fx.GraphModule
    inputs: list[Port]
    memories: list[MemoryPort]
    default_outputs: list[str]
    sub_step_outputs: list[str]
    frozen: list[FrozenTensor]
    parameter_names: dict[str, str] = field(default_factory=dict)

    @property
    def input_names(self) -> list[str]:
        """Names of everything that goes in, in the order of the module's arguments."""
        return [port.name for port in self.inputs] + [memory.input_name for memory in self.memories]

    @property
    def examples(self) -> dict[str, torch.Tensor]:
        """Values of everything that goes in: inputs as found, memories as they start."""
        values = {port.name: port.example for port in self.inputs}
        return values | {memory.input_name: memory.initial for memory in self.memories}

    @property
    def random_operators(self) -> list[str]:
        """Operators that draw random numbers, each with the line of code that called it."""
        return [
            f"{node.target} at {node.meta.get(WHERE, UNKNOWN)}"
            for node in self.module.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
        ]

    def without_memories(self, names: set[str]) -> "Program":
        """The same program without some memories whose value at entry nobody reads."""
        if not names:
            return self
        gone = [memory for memory in self.memories if memory.name in names]
        gone_outputs = {memory.output_name for memory in gone}
        module = copy.deepcopy(self.module)
        _drop_results(module, [name in gone_outputs for name in self.default_outputs + self.sub_step_outputs])
        _bind_arguments(module, {self.input_names.index(memory.input_name): memory.initial for memory in gone})
        return dataclasses.replace(
            self,
            module=module,
            memories=[memory for memory in self.memories if memory.name not in names],
            default_outputs=[name for name in self.default_outputs if name not in gone_outputs],
            sub_step_outputs=[name for name in self.sub_step_outputs if name not in gone_outputs],
        )

    def run(self, values: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Compute both paths from the same values, by name: (default outputs, sub-step outputs)."""
        with torch.no_grad():
            results = self.module(*(values[name] for name in self.input_names))
        count = len(self.default_outputs)
        default = dict(zip(self.default_outputs, results[:count], strict=True))
        return default, dict(zip(self.sub_step_outputs, results[count:], strict=True))


def _drop_results(module: fx.GraphModule, dropped: list[bool]) -> None:
    output = module.graph.output_node()
    results: Any = output.args[0]
    output.args = (tuple(node for node, is_dropped in zip(results, dropped, strict=True) if not is_dropped),)
    module.recompile()


def _bind_arguments(module: fx.GraphModule, values: dict[int, torch.Tensor]) -> None:
    """Replace arguments, by position, by constants."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    first = placeholders[-1].next
    for position, value in values.items():
        name = f"_bound_{position}"
        module.register_buffer(name, value)
        with module.graph.inserting_before(first):
            constant = module.graph.get_attr(name)
        placeholders[position].replace_all_uses_with(constant)
        module.graph.erase_node(placeholders[position])
    module.recompile()
