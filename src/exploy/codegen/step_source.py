"""Writes the function of one step: takes its operators one by one, and fills in its outputs at the end."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from exploy.codegen.c_types import c_type
from exploy.codegen.folding import constant_value, fold
from exploy.codegen.graph import Node, StepGraph
from exploy.codegen.operation import Operation
from exploy.codegen.operators import writer_of
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.tables import Tables
from exploy.codegen.values import Buffer, Computed, Constant, Value, View
from exploy.contract import Port
from exploy.errors import LoweringError

Places = Mapping[str, str]


@dataclass(frozen=True)
class PortField:
    """A port as C knows it.

    Args:
        name: The name of the port.
        field: Its name in C.
        dtype: Type of its elements.
        shape: Its shape, with 1 for open sizes.
    """

    name: str
    field: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @classmethod
    def of(cls, port: Port, field: str) -> "PortField":
        """A port under a name of C."""
        return cls(port.name, field, np.dtype(port.dtype), port.fixed_shape({}))

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def c_type(self) -> str:
        """Type of its elements in C."""
        return c_type(self.dtype).name


@dataclass(frozen=True)
class StepSource:
    """The function of a step.

    Args:
        inputs: The ports that it reads, in the order of its arguments.
        outputs: The ports that it computes, likewise.
        body: Its statements.
        scratch: How much memory of each type it needs for intermediate results.
        uses_status: Whether it can end with a status other than OK.
    """

    inputs: tuple[PortField, ...]
    outputs: tuple[PortField, ...]
    body: tuple[str, ...]
    scratch: Mapping[np.dtype, int]
    uses_status: bool


def write_step(
    graph: StepGraph, ports: Mapping[str, PortField], tables: Tables, kernels: set[str], places: Places
) -> StepSource:
    """Write the function of a step.

    Args:
        graph: Its operators.
        ports: The ports of the file, by name.
        tables: The constants of the file; those of this step are added.
        kernels: The kernels that the file uses; those of this step are added.
        places: The lines of the environment that operators come from, by the names of operators.

    Raises:
        LoweringError: If C code cannot be written for an operator, with its form and its line.
    """
    return _StepTranslation(graph, ports, tables, kernels, places).result()


class _StepTranslation:
    def __init__(
        self, graph: StepGraph, ports: Mapping[str, PortField], tables: Tables, kernels: set[str], places: Places
    ):
        self._graph = graph
        self._nodes = _nodes_that_matter(graph)
        self._places = places
        self._inputs = [ports[name] for name in graph.inputs]
        self._outputs = [ports[name] for name in graph.outputs]
        taken = [item.field for item in ports.values()] + tables.names
        self._step = StepWriter(tables, kernels, taken)
        in_and_out = (*self._inputs, *self._outputs)
        self._buffers = {item.name: Buffer(item.field, item.dtype, item.size) for item in in_and_out}
        self._values: dict[str, Value] = {
            item.name: _known_if_empty(View(self._buffers[item.name], item.shape)) for item in self._inputs
        }
        self._values |= {name: Constant(array, name) for name, array in graph.constants.items()}
        self._readers = Counter(name for node in self._nodes for name in node.inputs)
        self._readers.update(graph.outputs.values())

    def result(self) -> StepSource:
        for node in self._nodes:
            self._write(node)
        self._write_outputs()
        body, lengths = self._step.finish()
        unused = [f"(void){buffer.name};" for buffer in self._buffers.values() if not buffer.uses]
        lines = (*unused, *body)
        return StepSource(tuple(self._inputs), tuple(self._outputs), lines, lengths, self._step.uses_status)

    def _write(self, node: Node) -> None:
        inputs = [self._values[name] if name else None for name in node.inputs]
        outputs = [_plain(name) for name in node.outputs]
        operation = Operation(node.op_type, node.attributes, inputs, outputs, self._place(node))
        if node.is_random:
            raise operation.refused("which draws random numbers")
        if node.op_type == "Constant":
            self._values[node.outputs[0]] = Constant(constant_value(node), node.outputs[0])
            return
        known = {name: item.array for name, item in zip(node.inputs, inputs, strict=True) if isinstance(item, Constant)}
        if inputs and len(known) == len({name for name in node.inputs if name}):
            for name, array in zip(node.outputs, fold(node, known, self._graph.opset), strict=True):
                self._values[name] = Constant(array, name)
            return
        function = writer_of(node.op_type)
        if function is None:
            raise operation.refused("which it does not know")
        self._step.begin(operation)
        results = function(self._step, operation)
        for name, value in zip(node.outputs, [results] if isinstance(results, Value) else results, strict=False):
            if name:
                self._values[name] = self._kept(name, _known_if_empty(value))

    def _kept(self, name: str, value: Value) -> Value:
        """What later operators read: values that several of them read are computed once."""
        if not isinstance(value, Computed):
            return value
        value = value.named(_plain(name))
        return self._step.store(value) if self._readers[name] > 1 else value

    def _write_outputs(self) -> None:
        self._step.begin(Operation("outputs", {}, (), ()))
        for item in self._outputs:
            value = self._values[self._graph.outputs[item.name]]
            if value.dtype != item.dtype or value.size != item.size:
                raise LoweringError(
                    f"The contract says that {item.name!r} is {item.dtype}{list(item.shape)}, but the graph computes "
                    f"{value.dtype}{list(value.shape)}. Export the file again."
                )
            target = View(self._buffers[item.name], value.shape)
            self._step.store(value, target)

    def _place(self, node: Node) -> str:
        return self._places.get(node.name.rpartition("/")[2], "")


def _nodes_that_matter(graph: StepGraph) -> list[Node]:
    """The operators that an output depends on, in order."""
    needed = set(graph.outputs.values())
    kept = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(name for name in node.inputs if name)
            kept.append(node)
    return kept[::-1]


def _known_if_empty(value: Value) -> Value:
    """A value; if it has no elements, everything about it is known, and what follows is computed now."""
    return value if value.size else Constant(np.zeros(value.shape, value.dtype))


def _plain(name: str) -> str:
    """The name of a value without that of the step, which files put in front."""
    return name.removeprefix("_default.").removeprefix("_process_actions.").lstrip("_")
