"""The result of a capture: pure functions for both rates, with named ports. Torch, but neither environment nor ONNX."""

import copy
import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import fx

from exploy.exporter.capture.location import UNKNOWN
from exploy.exporter.capture.recording import WHERE

ACTIONS = "actions"
OBSERVATIONS = "obs"
_RANDOM_WHILE_TRAINING = ("lstm", "gru", "rnn_tanh", "rnn_relu", "scaled_dot_product_attention")


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
    """A tensor of the environment that was read, not registered, and is stored in the program with its value.

    Where ports cover a part of it, `elements` are the positions of the rest in the flattened tensor. `constants`
    are the buffers of the program's module that hold it; `is_written` says whether the pipeline writes to it as well.
    """

    name: str
    where: str
    shape: tuple[int, ...]
    elements: np.ndarray | None
    value: np.ndarray
    constants: frozenset[str]
    is_written: bool

    def changed_positions(self, live: object) -> np.ndarray | None:
        """Positions, in the flattened tensor, of frozen elements that a live tensor or array holds otherwise by now.

        None if there are none, or `live` is nothing to compare with.
        """
        array = live.detach().cpu().numpy() if isinstance(live, torch.Tensor) else live
        if not isinstance(array, np.ndarray):
            return None
        positions = np.arange(int(np.prod(self.shape))) if self.elements is None else self.elements
        if array.shape != self.shape:
            return positions
        flat = array.reshape(-1)[positions]
        same = (flat == self.value) | ((flat != flat) & (self.value != self.value))
        return None if same.all() else positions[~same]


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
    def precision(self) -> float:
        """The coarsest relative resolution of the floats that go into the program or are stored in it."""
        tensors = [*self.examples.values(), *self.module.buffers()]
        return max((torch.finfo(item.dtype).eps for item in tensors if item.is_floating_point()), default=0.0)

    @property
    def random_operators(self) -> list[str]:
        """Operators that draw random numbers, each with the line of code that called it."""
        return [
            f"{node.target} at {node.meta.get(WHERE, UNKNOWN)}"
            for node in self.module.graph.nodes
            if _draws_random_numbers(node)
        ]

    def depends_on(self, frozen: FrozenTensor, positions: np.ndarray | None = None) -> bool:
        """Whether any result changes, for inputs around the examples, when a frozen tensor does.

        Args:
            frozen: The tensor.
            positions: Which of its elements to change, if not all; all of them where they are not stored one by one.
        """
        generator = torch.Generator().manual_seed(0)
        inputs = {name: _disturbed(value, generator) for name, value in self.examples.items()}
        changed = copy.deepcopy(self.module)
        for name in frozen.constants:
            constant = getattr(changed, name)
            disturbed = _disturbed(constant, generator)
            if positions is not None and tuple(constant.shape) == frozen.shape:
                kept = torch.ones(constant.numel(), dtype=torch.bool)
                kept[torch.from_numpy(positions)] = False
                disturbed = torch.where(kept.reshape(constant.shape), constant, disturbed)
            setattr(changed, name, disturbed)
        try:
            before = self.run(inputs)
            after = dataclasses.replace(self, module=changed).run(inputs)
        except Exception:
            return True  # an index, say, that is no longer valid
        return any(
            not torch.equal(value.nan_to_num(), after[path][name].nan_to_num())
            for path in (0, 1)
            for name, value in before[path].items()
        )

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


def _draws_random_numbers(node: fx.Node) -> bool:
    """Whether an operator is random; recurrent and attention operators are only while training."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    name = target._schema.name.removeprefix("aten::")
    if "dropout" in name:
        return not any(argument is False for argument in node.args)
    return name not in _RANDOM_WHILE_TRAINING


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


def _disturbed(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if tensor.dtype == torch.bool:
        return ~tensor
    if tensor.is_floating_point():
        return tensor + torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
    return tensor + 1 if tensor.numel() else tensor
