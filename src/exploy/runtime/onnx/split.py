"""Takes the policy step and the sub-step of a file apart into a model each, so that none pays for the choice.

Done on the bytes of the file, without the onnx package. Weights go to the step that reads them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from exploy.contract import Contract
from exploy.runtime.onnx import protobuf
from exploy.runtime.onnx.protobuf import encoded, fields, text

_MAX_SHARED_BYTES = 1 << 16  # of weights that both steps read, and that would be in memory twice

_MODEL_GRAPH, _MODEL_FUNCTIONS, _MODEL_METADATA = 7, 25, 14
_NODE, _GRAPH_NAME, _INITIALIZER, _INPUT, _OUTPUT = 1, 2, 5, 11, 12  # of a graph
_NODE_INPUT, _NODE_OUTPUT, _OP_TYPE, _ATTRIBUTE = 1, 2, 4, 5  # of a node
_ATTRIBUTE_NAME, _ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 1, 6, 11
_TENSOR_NAME, _RAW_DATA, _VALUE_NAME = 8, 9, 1


@dataclass(frozen=True)
class StepModel:
    """One step as a model of its own.

    Args:
        data: The model.
        outputs: The name in the model of each output port that the step computes. Memories that it does not change, and
            outputs that it leaves as they are, are not among them.
    """

    data: bytes
    outputs: dict[str, str]


def split_steps(data: bytes, contract: Contract) -> tuple[StepModel, StepModel] | None:
    """The policy step and the sub-step of a file, or None where it is not of the form that allows it.

    That is: the ports are those of the contract, one `If` computes all outputs, and few weights are read by both of its
    branches.
    """
    model = list(fields(data))
    graph = _graph(data, model)
    branches = _branches(data, graph)
    if branches is None or any(branch.initializers for branch in branches) or not _is_described_by(contract, graph):
        return None
    passed = {memory.output: memory.input for memory in contract.memories}
    policy = _StepOfGraph(data, graph, branches[0], set(graph.output_names), passed)
    sub_step = _StepOfGraph(data, graph, branches[1], set(contract.sub_step_inputs), passed)
    shared = policy.weights & sub_step.weights
    if sum(graph.initializers[name].stop - graph.initializers[name].start for name in shared) > _MAX_SHARED_BYTES:
        return None
    head = b"".join(data[item.tag : item.stop] for item in model if item.number not in (_MODEL_GRAPH, _MODEL_METADATA))
    return policy.model(head), sub_step.model(head)


def decimation_of(data: bytes) -> int | None:
    """By how many ticks the graph of a file chooses its step; None where it does not do that in the usual form."""
    graph = _graph(data, list(fields(data)))
    if _branches(data, graph) is None or graph.nodes[0].inputs[1] not in graph.initializers:
        return None
    place = graph.initializers[graph.nodes[0].inputs[1]]
    raw = [item for item in fields(data, place.start, place.stop) if item.number == _RAW_DATA]
    return int.from_bytes(data[raw[0].start : raw[0].stop], "little") if raw else None


def _graph(data: bytes, model: list[protobuf.Field]) -> "_Graph":
    """The graph of a model; an empty one where it calls functions, which are elsewhere."""
    places = [item for item in model if item.number == _MODEL_GRAPH]
    if len(places) != 1 or any(item.number == _MODEL_FUNCTIONS for item in model):
        return _Graph()
    return _Graph.read(data, places[0])


@dataclass
class _Node:
    place: protobuf.Field
    op_type: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    graphs: dict[str, protobuf.Field] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, data: bytes, place: protobuf.Field) -> "_Node":
        node = cls(place)
        for item in fields(data, place.start, place.stop):
            if item.number == _NODE_INPUT:
                node.inputs.append(text(data, item))
            elif item.number == _NODE_OUTPUT:
                node.outputs.append(text(data, item))
            elif item.number == _OP_TYPE:
                node.op_type = text(data, item)
            elif item.number == _ATTRIBUTE:
                node._read_attribute(data, item)
        node.reads |= set(node.inputs)
        return node

    def _read_attribute(self, data: bytes, place: protobuf.Field) -> None:
        name = ""
        for item in fields(data, place.start, place.stop):
            if item.number == _ATTRIBUTE_NAME:
                name = text(data, item)
            elif item.number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
                self.graphs[name] = item
                self.reads |= {name for node in _Graph.read(data, item).nodes for name in node.reads}


@dataclass
class _Graph:
    nodes: list[_Node] = field(default_factory=list)
    initializers: dict[str, protobuf.Field] = field(default_factory=dict)
    inputs: dict[str, protobuf.Field] = field(default_factory=dict)
    outputs: list[protobuf.Field] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, data: bytes, place: protobuf.Field) -> "_Graph":
        graph = cls()
        for item in fields(data, place.start, place.stop):
            if item.number == _NODE:
                graph.nodes.append(_Node.read(data, item))
            elif item.number == _INITIALIZER:
                graph.initializers[_named(data, item, _TENSOR_NAME)] = item
            elif item.number == _INPUT:
                graph.inputs[_named(data, item, _VALUE_NAME)] = item
            elif item.number == _OUTPUT:
                graph.outputs.append(item)
                graph.output_names.append(_named(data, item, _VALUE_NAME))
        return graph


def _named(data: bytes, place: protobuf.Field, number: int) -> str:
    names = (text(data, item) for item in fields(data, place.start, place.stop) if item.number == number)
    return next(names, "")


def _is_described_by(contract: Contract, graph: _Graph) -> bool:
    inputs, outputs = ([port.name for port in ports] for ports in (contract.inputs, contract.outputs))
    return inputs == list(graph.inputs) and outputs == graph.output_names


def _branches(data: bytes, graph: _Graph) -> tuple[_Graph, _Graph] | None:
    """The branches of a graph that chooses one of two by the step count and does nothing else."""
    if [node.op_type for node in graph.nodes] != ["Mod", "Equal", "If"]:
        return None
    choice = graph.nodes[-1]
    if choice.outputs != graph.output_names or set(choice.graphs) != {"then_branch", "else_branch"}:
        return None
    return _Graph.read(data, choice.graphs["then_branch"]), _Graph.read(data, choice.graphs["else_branch"])


class _StepOfGraph:
    """What one branch needs of the graph around it, for some of the ports."""

    def __init__(self, data: bytes, outer: _Graph, branch: _Graph, computed: set[str], passed: dict[str, str]):
        self._data = data
        self._outer = outer
        producers = {name: node for node in branch.nodes for name in node.outputs}
        self._outputs = {
            port: place
            for port, place, name in zip(outer.output_names, branch.outputs, branch.output_names, strict=True)
            if port in computed and not _passes(producers, name, passed.get(port))
        }
        self._nodes = _needed(branch.nodes, (self._name(place) for place in self._outputs.values()))
        reads = {name for node in self._nodes for name in node.reads}
        self.weights = reads & set(outer.initializers)
        self._inputs = [name for name in outer.inputs if name in reads]

    def model(self, head: bytes) -> StepModel:
        places = [
            *(node.place for node in self._nodes),
            *(place for name, place in self._outer.initializers.items() if name in self.weights),
            *(self._outer.inputs[name] for name in self._inputs),
            *self._outputs.values(),
        ]
        parts = (self._data[place.tag : place.stop] for place in places)
        graph = b"".join([*parts, encoded(_GRAPH_NAME, b"exploy")])
        outputs = {port: self._name(place) for port, place in self._outputs.items()}
        return StepModel(head + encoded(_MODEL_GRAPH, graph), outputs)

    def _name(self, place: protobuf.Field) -> str:
        return _named(self._data, place, _VALUE_NAME)


def _passes(producers: dict[str, _Node], name: str, port: str | None) -> bool:
    """Whether a memory's value is what came in, unchanged."""
    while name in producers and producers[name].op_type == "Identity":
        name = producers[name].inputs[0]
    return name == port


def _needed(nodes: list[_Node], outputs: Iterable[str]) -> list[_Node]:
    """The nodes that some values are computed by, in order."""
    wanted, needed = set(outputs), []
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            wanted |= node.reads
            needed.append(node)
    return needed[::-1]
