"""Computes in advance what depends on stored values alone, such as weights that a parametrisation makes of others.

The operators that compute such values then need no ONNX form, and the file does not compute them at each step. Only the
graph to be lowered changes. The program keeps the operators, and with them which stored tensors a result depends on.

A value that is larger than what it is computed from is left to the file, so that an outer product of two vectors does
not become a stored matrix, unless an operator without an ONNX form makes it. Random numbers are never stored, nor is
memory that a value from an input is written to.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from exploy.backends.onnx.exact_operators import has_exact_form
from exploy.backends.onnx.operator_table import has_onnx_form
from exploy.capture.dependencies import memory_of
from exploy.capture.program import draws_random_numbers
from exploy.capture.recording import mutated_arguments, viewed_argument

_aten = torch.ops.aten
_COPIES = (_aten.clone.default, _aten.lift_fresh_copy.default, _aten.lift_fresh.default)
_VALUES = ("get_attr", "call_function")

Reads = dict[fx.Node, list[fx.Node]]


def fold_constants(module: fx.GraphModule) -> None:
    """Store what the graph of a module computes from its parameters and buffers alone, in place."""
    constants = _Constants(module)
    reads = _Choice(constants).reads
    if reads:
        _store(constants, reads)
        _erase_unread(module.graph)
        module.graph.lint()
        module.recompile()


class _Constants:
    """The nodes of a graph that depend on buffers alone, and their values at each point of the graph."""

    def __init__(self, module: fx.GraphModule):
        self.module = module
        self.nodes = list(module.graph.nodes)
        varying = _varying_memory(self.nodes)
        self._found = {node for node in self.nodes if node.op in _VALUES and memory_of(node) not in varying}
        self._written = {memory_of(target) for node in self._found for target in mutated_arguments(node)}
        self._values: dict[fx.Node, Any] = {}
        self._writes: dict[fx.Node, int] = {}
        self.run(lambda node: None)

    def __contains__(self, node: fx.Node) -> bool:
        return node in self._found

    def run(self, before: Callable[[fx.Node], None]) -> None:
        """Compute the values again, and call a function in front of each node of the graph."""
        self._values, self._writes = {}, {}
        with torch.no_grad():
            for node in self.nodes:
                before(node)
                if node in self:
                    self._values[node] = self._computed(node)
                    for target in mutated_arguments(node):
                        self._writes[memory_of(target)] = self.version(target) + 1

    def value(self, node: fx.Node) -> Any:
        """The value of a node where the run is; after the run, its last one."""
        return self._values[node]

    def version(self, node: fx.Node) -> int:
        """The number of writes to the memory of a node up to where the run is."""
        return self._writes.get(memory_of(node), 0)

    def _computed(self, node: fx.Node) -> Any:
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(self.module)
            return value.clone() if node in self._written else value
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._values.__getitem__)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _varying_memory(nodes: list[fx.Node]) -> set[fx.Node]:
    """The memory that depends on arguments or random numbers at some point, each by the node that owns it."""
    varying = {memory_of(node) for node in nodes if node.op not in _VALUES or _is_no_constant(node)}
    count = -1
    while count != len(varying):
        count = len(varying)
        for node in nodes:
            if any(memory_of(item) in varying for item in (node, *node.all_input_nodes)):
                varying.update(memory_of(item) for item in (node, *mutated_arguments(node)))
    return varying


def _is_no_constant(node: fx.Node) -> bool:
    """Whether a node may have another value each time: a random number, or what an operator of somebody else reads."""
    if node.op == "get_attr" or node.target is operator.getitem:
        return False
    is_of_torch = isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten"
    return not is_of_torch or draws_random_numbers(node)


class _Choice:
    """Chooses the values to store: `reads` has the nodes that stay in the graph, each with those to store for it."""

    def __init__(self, constants: _Constants):
        self._constants = constants
        self._sources = self._found_sources()
        self._sharing: dict[fx.Node, list[fx.Node]] = {}
        for node in constants.nodes:
            self._sharing.setdefault(memory_of(node), []).append(node)
        self.reads: Reads = {}
        self._keep([node for node in constants.nodes if node not in constants])

    def _found_sources(self) -> dict[fx.Node, set[fx.Node]]:
        """The buffers that each memory is computed from."""
        sources: dict[fx.Node, set[fx.Node]] = {}
        for node in self._constants.nodes:
            reached = {node} if node.op == "get_attr" else set[fx.Node]()
            for item in node.all_input_nodes:
                reached |= sources[memory_of(item)]
            for target in (node, *mutated_arguments(node)):
                sources.setdefault(memory_of(target), set()).update(reached)
        return sources

    def _keep(self, pending: list[fx.Node]) -> None:
        """Leave nodes in the graph. What they read is stored or left as well, with all writes to its memory."""
        kept: set[fx.Node] = set()
        while pending:
            node = pending.pop()
            if node in kept:
                continue
            kept.add(node)
            for read in (item for item in node.all_input_nodes if item in self._constants):
                if memory_of(read) is not memory_of(node) and self._is_worth_storing(read):
                    self.reads.setdefault(node, []).append(read)
                else:
                    pending += self._sharing[memory_of(read)]

    def _is_worth_storing(self, node: fx.Node) -> bool:
        value = self._constants.value(node)
        if not isinstance(value, torch.Tensor) or value.is_complex() or not _is_computed(node):
            return False
        given = sum(self._constants.value(source).nbytes for source in self._sources[memory_of(node)])
        return value.nbytes <= given or self._lacks_form(memory_of(node))

    def _lacks_form(self, node: fx.Node) -> bool:
        """Whether an operator, or one of those that it consists of, has no ONNX form."""
        if node.op != "call_function" or _has_form(node.target):
            return False
        inputs = list(dict.fromkeys(node.all_input_nodes))

        def call(*tensors: Any) -> Any:
            args, kwargs = fx.map_arg((node.args, node.kwargs), dict(zip(inputs, tensors, strict=True)).__getitem__)
            return node.target(*args, **kwargs)  # type: ignore[operator]

        examples = [self._constants.value(item) for item in inputs]
        table: Any = torch.export.default_decompositions()
        try:
            parts = make_fx(call, decomposition_table=table)(*examples)
        except RuntimeError:
            return False  # its parts depend on values
        used = {item.target for item in parts.graph.nodes if isinstance(item.target, torch._ops.OpOverload)}
        return not all(map(_has_form, used))


def _has_form(target: Any) -> bool:
    return has_exact_form(target) or has_onnx_form(target)


def _is_computed(node: fx.Node) -> bool:
    """Whether a node is more than a view or a copy of a buffer."""
    while node.op != "get_attr":
        viewed = node.args[0] if node.target is operator.getitem or node.target in _COPIES else viewed_argument(node)
        if mutated_arguments(node) or not isinstance(viewed, fx.Node):
            return True
        node = viewed
    return False


def _store(constants: _Constants, reads: Reads) -> None:
    """Put buffers in the place of the nodes that computed their values."""
    module, stored = constants.module, dict[tuple[fx.Node, int], str]()
    planned: list[tuple[fx.Node, fx.Node, str]] = []

    def plan(reader: fx.Node) -> None:
        for node in reads.get(reader, []):
            key = (node, constants.version(node))
            if key not in stored:
                stored[key] = f"_folded_{len(stored)}"
                value = constants.value(node).clone(memory_format=torch.contiguous_format)
                module.register_buffer(stored[key], value)
            planned.append((reader, node, stored[key]))

    constants.run(plan)
    for reader, node, name in planned:
        with module.graph.inserting_before(reader):
            constant = module.graph.get_attr(name)
        reader.replace_input_with(node, constant)


def _erase_unread(graph: fx.Graph) -> None:
    """Erase nodes that no result depends on, with writes to memory that is not read."""
    read = {graph.output_node()}
    count = -1
    while count != len(read):
        count = len(read)
        memory = {memory_of(node) for node in read}
        for node in reversed(graph.nodes):
            if node in read or node.op == "placeholder" or any(memory_of(t) in memory for t in mutated_arguments(node)):
                read.add(node)
                read.update(node.all_input_nodes)
    for node in reversed(graph.nodes):
        if node not in read:
            graph.erase_node(node)
