"""The result of a capture: pure functions for both rates, with named ports. Depends on torch, but not on ONNX."""

import copy
import dataclasses
import math
import operator
from collections.abc import Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import fx

from exploy.capture.dependencies import sources_of_results
from exploy.capture.recording import STAGE, WHERE
from exploy.live.location import UNKNOWN

ACTIONS = "actions"
_FLOAT32 = torch.finfo(torch.float32).eps
_RANDOM_WHILE_TRAINING = ("lstm", "gru", "rnn_tanh", "rnn_relu", "scaled_dot_product_attention")


@dataclass(frozen=True)
class ProgramInput:
    """A named input tensor of the program."""

    name: str
    example: torch.Tensor


@dataclass(frozen=True)
class ProgramMemory:
    """A value that the program returns and takes as an input at the next call.

    A `carried` memory was not registered. It passes a value from the policy step to the sub-steps and has no meaning
    before the first policy step. `attr_path` is the attribute path of its tensor, if known; `where` is the line of code
    that reads it.
    """

    name: str
    input_name: str
    output_name: str
    initial: torch.Tensor
    carried: bool = False
    written_by_observations: bool = False
    attr_path: str | None = None
    where: str = ""


@dataclass(frozen=True)
class RandomOperator:
    """An operator that draws random numbers, with its pipeline stage and the line of code that called it."""

    name: str
    stage: str
    where: str

    def __str__(self) -> str:
        return f"{self.name} at {self.where}"


@dataclass(frozen=True)
class Sources:
    """What a result is computed from: ports, buffers of the module, random operators."""

    inputs: frozenset[str] = frozenset()
    buffers: frozenset[str] = frozenset()
    random: frozenset[RandomOperator] = frozenset()

    def __or__(self, other: "Sources") -> "Sources":
        return Sources(self.inputs | other.inputs, self.buffers | other.buffers, self.random | other.random)


@dataclass(frozen=True)
class FrozenTensor:
    """A tensor of the environment that was read but not registered. The program stores its value.

    Its name is its attribute path. Without an attribute path the name contains a number and `live` is the tensor. If
    ports cover a part of the tensor, `elements` are the positions of the rest in the flattened tensor. `buffers` are
    the buffers of the program's module that hold it. `is_written` tells whether the pipeline also writes to it.
    `is_weight` tells whether it is a parameter or buffer of a known module. `declared` is the name of the constant that
    the user declared for it. `is_read_by_python` tells whether Python made a branch or a number of its values.
    """

    name: str
    where: str
    shape: tuple[int, ...]
    elements: np.ndarray | None
    value: np.ndarray
    buffers: frozenset[str]
    is_written: bool
    is_weight: bool = False
    declared: str | None = None
    is_read_by_python: bool = False
    live: torch.Tensor | None = field(default=None, repr=False, compare=False)

    def changed_elements(self, now: np.ndarray) -> np.ndarray | None:
        """Flags for the elements of the flattened tensor that are frozen and have changed; None if none has changed."""
        frozen = slice(None) if self.elements is None else self.elements
        if now.shape != self.shape:
            flags = np.zeros(math.prod(self.shape), dtype=bool)
            flags[frozen] = True
            return flags
        values = now.reshape(-1)[frozen]
        if np.array_equal(values, self.value):
            return None  # the usual case, in one pass
        flags = np.zeros(math.prod(self.shape), dtype=bool)
        flags[frozen] = (values != self.value) & ((values == values) | (self.value == self.value))
        return flags if flags.any() else None


@dataclass(frozen=True)
class Program:
    """Policy step and sub-step of an environment as one graph module without side effects.

    The module takes the values of `inputs`, then of `memories`. It returns the values of `policy_step_outputs`, then of
    `sub_step_outputs`. `batch_axes` maps inputs and memories to the axis along which they may have any size.
    `dropped_checks` are the lines of user code that check values and raise or print, which the module does not.
    `observation_outputs` are the outputs with observations. `unread_groups` are the groups of observations that the
    actor does not read; the module does not return them.
    """

    module: fx.GraphModule
    inputs: list[ProgramInput]
    memories: list[ProgramMemory]
    policy_step_outputs: list[str]
    sub_step_outputs: list[str]
    frozen: list[FrozenTensor]
    weights: list[FrozenTensor] = field(default_factory=list)
    parameter_names: dict[str, str] = field(default_factory=dict)
    batch_axes: dict[str, int] = field(default_factory=dict)
    dropped_checks: tuple[str, ...] = ()
    observation_outputs: tuple[str, ...] = ()
    unread_groups: tuple[str, ...] = ()

    @property
    def frozen_and_weights(self) -> list[FrozenTensor]:
        """All tensors stored with their current value: frozen tensors, then weights."""
        return [*self.frozen, *self.weights]

    @property
    def input_names(self) -> list[str]:
        """Names of inputs and memory inputs, in the order of the module's arguments."""
        return [port.name for port in self.inputs] + [memory.input_name for memory in self.memories]

    @property
    def examples(self) -> dict[str, torch.Tensor]:
        """Example values by input name: the current values of inputs, the initial values of memories."""
        values = {port.name: port.example for port in self.inputs}
        return values | {memory.input_name: memory.initial for memory in self.memories}

    @cached_property
    def precision(self) -> float:
        """The coarsest machine epsilon of the program's floating-point inputs, buffers and conversions."""
        dtypes = {item.dtype for item in (*self.examples.values(), *self.module.buffers())}
        for node in self.module.graph.nodes:
            dtypes.update(item for item in (*node.args, *node.kwargs.values()) if isinstance(item, torch.dtype))
        return max((torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point), default=0.0)

    @cached_property
    def precision_of_ports(self) -> float:
        """The coarsest machine epsilon of the program's floating-point inputs."""
        dtypes = {item.dtype for item in self.examples.values()}
        return max((torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point), default=0.0)

    @cached_property
    def coarse_outputs(self) -> dict[str, float]:
        """The machine epsilon of outputs that a step computes in types coarser than float32, by name."""
        graph = self.module.graph
        epsilons = {node: self._epsilon(node) for node in graph.nodes}
        found = sources_of_results(graph, lambda node: epsilons[node] > _FLOAT32)
        names = [*self.policy_step_outputs, *self.sub_step_outputs]
        coarse: dict[str, float] = {}
        for name, nodes in zip(names, found, strict=True):
            if nodes:
                coarse[name] = max(coarse.get(name, 0.0), *(epsilons[node] for node in nodes))
        return coarse

    @cached_property
    def coarse_through_memories(self) -> dict[str, float]:
        """As `coarse_outputs`, with the outputs that depend on a memory which an earlier step has computed so."""
        coarse = dict(self.coarse_outputs)
        memories = {memory.input_name: memory.output_name for memory in self.memories}
        while True:
            reached = dict(coarse)
            for name, sources in (item for step in self.sources for item in step.items()):
                epsilons = [coarse[memories[source]] for source in sources.inputs if memories.get(source) in coarse]
                if epsilons:
                    reached[name] = max(reached.get(name, 0.0), *epsilons)
            if reached == coarse:
                return coarse
            coarse = reached

    def _epsilon(self, node: fx.Node) -> float:
        """The machine epsilon of the type that a node converts to or stores; 0 for other nodes."""
        dtypes = [item for item in (*node.args, *node.kwargs.values()) if isinstance(item, torch.dtype)]
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(self.module)
            dtypes = [value.dtype] if isinstance(value, torch.Tensor) else []
        return max((torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point), default=0.0)

    @cached_property
    def sources(self) -> tuple[dict[str, Sources], dict[str, Sources]]:
        """What each result may depend on, by name: (policy step outputs, sub-step outputs)."""
        graph = self.module.graph
        ports = dict(zip((node for node in graph.nodes if node.op == "placeholder"), self.input_names, strict=True))
        found = sources_of_results(graph, lambda node: node.op != "call_function" or draws_random_numbers(node))
        results = [_sources(nodes, ports) for nodes in found]
        count = len(self.policy_step_outputs)
        default = dict(zip(self.policy_step_outputs, results[:count], strict=True))
        return default, dict(zip(self.sub_step_outputs, results[count:], strict=True))

    @property
    def used_inputs(self) -> list[str]:
        """Names of the inputs and memories that a result depends on, in the order of the module's arguments."""
        used = {name for step in self.sources for sources in step.values() for name in sources.inputs}
        return [name for name in self.input_names if name in used]

    @property
    def used_buffers(self) -> frozenset[str]:
        """Names of the buffers of the module that a result depends on."""
        return frozenset(name for step in self.sources for sources in step.values() for name in sources.buffers)

    @property
    def sub_step_inputs(self) -> dict[str, list[str]]:
        """For each output of a sub-step, the names of the inputs that it depends on; memories are not listed."""
        inputs = {port.name for port in self.inputs}
        return {name: sorted(sources.inputs & inputs) for name, sources in self.sources[1].items()}

    @property
    def written_by_observations(self) -> set[str]:
        """Names of the memories that computing observations changes."""
        return {memory.name for memory in self.memories if memory.written_by_observations}

    @property
    def unread_memories(self) -> set[str]:
        """Names of carried memories that nothing but such memories depends on."""
        carried = {memory.input_name: memory for memory in self.memories if memory.carried}
        outputs = {memory.output_name: memory.input_name for memory in carried.values()}
        reads = {name: sources.inputs for name, sources in self.sources[1].items()}
        read: set[str] = set()
        pending = [name for output, names in reads.items() if output not in outputs for name in names]
        while pending:
            name = pending.pop()
            if name in carried and name not in read:
                read.add(name)
                pending += reads.get(carried[name].output_name, frozenset())
        return {memory.name for name, memory in carried.items() if name not in read}

    @property
    def random_operators(self) -> list[RandomOperator]:
        """Random operators that a result depends on, sorted by line and name."""
        drawn = {operator for step in self.sources for sources in step.values() for operator in sources.random}
        return sorted(drawn, key=lambda operator: (operator.where, operator.name, operator.stage))

    @cached_property
    def random_outputs(self) -> set[str]:
        """Outputs that are not deterministic: they depend on random numbers, directly or through a memory."""
        random: set[str] = set()
        memories = {memory.input_name: memory.output_name for memory in self.memories}
        while True:
            reached = {
                name
                for step in self.sources
                for name, sources in step.items()
                if sources.random or any(memories.get(source) in random for source in sources.inputs)
            }
            if reached == random:
                return random
            random = reached

    def without_memories(self, names: Set[str]) -> "Program":
        """Return the program without the named memories, whose input value must not be read."""
        if not names:
            return self
        gone = [memory for memory in self.memories if memory.name in names]
        gone_outputs = {memory.output_name for memory in gone}
        module = copy.deepcopy(self.module)
        _drop_results(module, [name in gone_outputs for name in self.policy_step_outputs + self.sub_step_outputs])
        _bind_arguments(module, {self.input_names.index(memory.input_name): memory.initial for memory in gone})
        return dataclasses.replace(
            self,
            module=module,
            memories=[memory for memory in self.memories if memory.name not in names],
            policy_step_outputs=[name for name in self.policy_step_outputs if name not in gone_outputs],
            sub_step_outputs=[name for name in self.sub_step_outputs if name not in gone_outputs],
        )

    def run(self, values: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Compute both steps from the same values, by name: (policy step outputs, sub-step outputs)."""
        with torch.no_grad():
            results = self.module(*(values[name] for name in self.input_names))
        count = len(self.policy_step_outputs)
        default = dict(zip(self.policy_step_outputs, results[:count], strict=True))
        return default, dict(zip(self.sub_step_outputs, results[count:], strict=True))


def draws_random_numbers(node: fx.Node) -> bool:
    """Whether an operator is random. Recurrent and attention operators are random only in training mode."""
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
    """Replace arguments, given by position, with constants."""
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


def _sources(nodes: set[fx.Node], ports: dict[fx.Node, str]) -> Sources:
    return Sources(
        inputs=frozenset(ports[node] for node in nodes if node.op == "placeholder"),
        buffers=frozenset(str(node.target) for node in nodes if node.op == "get_attr"),
        random=frozenset(
            RandomOperator(str(node.target), node.meta.get(STAGE, ""), node.meta.get(WHERE, UNKNOWN))
            for node in nodes
            if node.op == "call_function"
        ),
    )
