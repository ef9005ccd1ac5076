"""What is where in the bytes of an ONNX file: parsed once, without the onnx package."""

from dataclasses import dataclass, field
from functools import cached_property

from exploy.contract import METADATA_KEY
from exploy.contract.limits import MAX_SUBGRAPHS
from exploy.errors import ContractError
from exploy.runtime.onnx import messages
from exploy.runtime.onnx.messages import Form
from exploy.runtime.onnx.protobuf import Field, MalformedMessageError, text

# Numbers of fields in onnx.proto: of a model, of an entry of its metadata, of an opset import, of a graph, of a node,
# of an attribute, of a tensor, of a sparse tensor, of a function.
_IR_VERSION, MODEL_GRAPH, _OPSET_IMPORT, MODEL_METADATA, _TRAINING, _FUNCTIONS = 1, 7, 8, 14, 20, 25
_KEY, _VALUE = 1, 2
_DOMAIN, _VERSION = 1, 2
_NODE, GRAPH_NAME, _INITIALIZER, _INPUT, _OUTPUT, _SPARSE_INITIALIZER = 1, 2, 5, 11, 12, 15
_NODE_INPUT, _NODE_OUTPUT, _OP_TYPE, _ATTRIBUTE, _NODE_DOMAIN = 1, 2, 4, 5, 7
_ATTRIBUTE_NAME, _ATTRIBUTE_INTEGER, _ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 1, 3, 6, 11
_ATTRIBUTE_TENSORS, _ATTRIBUTE_SPARSE = (5, 10), (22, 23)
_TENSOR_NAME, _RAW_DATA, VALUE_NAME = 8, 9, 1
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_SPARSE_VALUES, _SPARSE_INDICES = 1, 2
_FUNCTION_NAME, _FUNCTION_INPUT, _FUNCTION_OUTPUT, _FUNCTION_NODE = 1, 4, 5, 7
_FUNCTION_OPSET_IMPORT, _FUNCTION_DOMAIN, _FUNCTION_ATTRIBUTE = 9, 10, 11
_DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass
class Node:
    """An operator: where it is, what it reads and gives, and the graphs and integers that are its attributes."""

    place: Field
    op_type: str = ""
    domain: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    graphs: dict[str, "Graph"] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)

    @classmethod
    def parse(cls, data: bytes, place: Field, depth: int = 0) -> "Node":
        """Parse a node; `reads` has what its subgraphs read as well."""
        node = cls(place)
        for item in messages.NODE.fields(data, place):
            if item.number == _NODE_INPUT:
                node.inputs.append(text(data, item))
            elif item.number == _NODE_OUTPUT:
                node.outputs.append(text(data, item))
            elif item.number == _OP_TYPE:
                node.op_type = text(data, item)
            elif item.number == _NODE_DOMAIN:
                node.domain = text(data, item)
            elif item.number == _ATTRIBUTE:
                node._parse_attribute(data, item, depth)
        node.reads |= set(node.inputs)
        return node

    def _parse_attribute(self, data: bytes, place: Field, depth: int) -> None:
        graphs = []
        name, number = "", None
        for item in messages.ATTRIBUTE.fields(data, place):
            if item.number == _ATTRIBUTE_NAME:
                name = text(data, item)
            elif item.number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
                graphs.append(Graph.parse(data, item, depth + 1))
            elif item.number == _ATTRIBUTE_INTEGER:
                number = _signed(item.value or 0)
            else:
                _check_constant(data, item)
        if number is not None:
            self.numbers[name] = number
        for index, graph in enumerate(graphs):
            key = name if index == 0 else f"{name} {index}"
            if key in self.graphs:
                raise MalformedMessageError(f"a node has the attribute {name!r} twice, at byte {place.tag}")
            self.graphs[key] = graph
            self.reads |= {read for node in graph.nodes for read in node.reads} | set(graph.output_names)


@dataclass
class Graph:
    """A graph: its nodes, and where its weights, inputs and outputs are."""

    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, Field] = field(default_factory=dict)
    inputs: dict[str, Field] = field(default_factory=dict)
    outputs: list[Field] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, data: bytes, place: Field, depth: int = 0) -> "Graph":
        """Parse a graph and the graphs inside of it.

        Raises:
            MalformedMessageError: If it is damaged, has weights outside of the file, or names something twice.
        """
        if depth > MAX_SUBGRAPHS:
            raise MalformedMessageError(f"more than {MAX_SUBGRAPHS} subgraphs inside of each other")
        graph = cls()
        for item in messages.GRAPH.fields(data, place):
            if item.number == _NODE:
                graph.nodes.append(Node.parse(data, item, depth))
            elif item.number == _INITIALIZER:
                _add(graph.initializers, check_tensor(data, item), item)
            elif item.number == _SPARSE_INITIALIZER:
                _add(graph.initializers, _check_sparse_tensor(data, item), item)
            elif item.number == _INPUT:
                _add(graph.inputs, name_in(data, item, VALUE_NAME), item)
            elif item.number == _OUTPUT:
                graph.outputs.append(item)
                graph.output_names.append(name_in(data, item, VALUE_NAME))
        return graph


@dataclass
class Function:
    """A function of the model: its name, what it reads and gives, its nodes, and the domains that it imports."""

    name: str = ""
    domain: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    imports: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes, place: Field) -> "Function":
        """Parse a function.

        Raises:
            MalformedMessageError: If it is damaged, or has weights outside of the file.
        """
        found = cls()
        defaults = Node(place)
        for item in messages.FUNCTION.fields(data, place):
            if item.number == _FUNCTION_NAME:
                found.name = text(data, item)
            elif item.number == _FUNCTION_DOMAIN:
                found.domain = text(data, item)
            elif item.number == _FUNCTION_INPUT:
                found.inputs.append(text(data, item))
            elif item.number == _FUNCTION_OUTPUT:
                found.outputs.append(text(data, item))
            elif item.number == _FUNCTION_NODE:
                found.nodes.append(Node.parse(data, item))
            elif item.number == _FUNCTION_OPSET_IMPORT:
                _add_import(data, item, found.imports)
            elif item.number == _FUNCTION_ATTRIBUTE:
                defaults._parse_attribute(data, item, depth=0)
        if defaults.graphs:
            raise MalformedMessageError(f"the function {found.name!r} has a graph as a default value")
        return found


@dataclass(frozen=True)
class Outline:
    """The parts of a model, as places in its bytes.

    Args:
        data: The bytes of the model.
        fields: The top-level fields of the model.
        ir_version: Version of the file format; 0 where it is not given.
        opset: Version of the ONNX operators; 0 where it is not given.
        contracts: Where the values of the metadata entries called `exploy.contract` start and stop.
        whole_graph: The graph.
        functions: The functions of the model.
        imports: The version of each operator domain that the model imports.
    """

    data: bytes
    fields: list[Field]
    ir_version: int
    opset: int
    contracts: list[tuple[int, int]]
    whole_graph: Graph
    functions: list[Function]
    imports: dict[str, int]

    @classmethod
    def parse(cls, data: bytes, name: str = "The file") -> "Outline":
        """Parse the bytes of a model.

        Raises:
            ContractError: If they are not an ONNX model, or the model has weights outside of the file.
        """
        try:
            found = list(messages.MODEL.fields(data))
            if not any(item.number == MODEL_GRAPH for item in found):
                raise ContractError(
                    f"{name} is not an ONNX file: it has no graph. Give the path of an exported policy.onnx."
                )
            return _parse(data, found)
        except MalformedMessageError as error:
            raise ContractError(
                f"{name} is not an ONNX file, or is truncated or damaged ({error}). Copy it again, or export it again."
            ) from None

    @property
    def graph(self) -> Graph:
        """The graph; an empty one where the model has functions, whose nodes are not in the graph."""
        return Graph() if self.functions else self.whole_graph

    @cached_property
    def branches(self) -> tuple[Graph, Graph] | None:
        """Policy step and sub-step, where the graph does nothing but choose one of them by the step count."""
        if [node.op_type for node in self.graph.nodes] != ["Mod", "Equal", "If"]:
            return None
        choice = self.graph.nodes[-1]
        if choice.outputs != self.graph.output_names or set(choice.graphs) != {"then_branch", "else_branch"}:
            return None
        branches = choice.graphs["then_branch"], choice.graphs["else_branch"]
        return branches if all(len(branch.outputs) == len(choice.outputs) for branch in branches) else None

    @property
    def decimation(self) -> int | None:
        """By how many ticks the graph chooses its step; None where it has no branches or another form."""
        divisor = self.graph.nodes[0].inputs[1:2] if self.branches is not None else []
        place = self.graph.initializers.get(divisor[0]) if divisor else None
        if place is None:
            return None
        raw = [item for item in messages.TENSOR.fields(self.data, place) if item.number == _RAW_DATA]
        return int.from_bytes(self.data[raw[0].start : raw[0].stop], "little") if raw else None


def name_in(data: bytes, place: Field, number: int, form: Form = messages.VALUE) -> str:
    """The string in a field of a message, by the number of the field; empty where there is none."""
    return "".join(text(data, item) for item in form.fields(data, place) if item.number == number)


def check_tensor(data: bytes, place: Field) -> str:
    """Check that the values of a tensor are in the file, and return its name.

    Raises:
        MalformedMessageError: If they are elsewhere.
    """
    name = ""
    for item in messages.TENSOR.fields(data, place):
        if item.number == _TENSOR_NAME:
            name = text(data, item)
        elif item.number == _EXTERNAL_DATA or (item.number == _DATA_LOCATION and item.value):
            raise MalformedMessageError(
                f"the values of the tensor {name!r} at byte {place.tag} are outside of the file (external_data)"
            )
    return name


def _check_sparse_tensor(data: bytes, place: Field) -> str:
    """Check both tensors of a sparse tensor, and return the name of its values, which is its own."""
    name = ""
    for item in messages.SPARSE_TENSOR.fields(data, place):
        if item.number == _SPARSE_VALUES:
            name = check_tensor(data, item)
        elif item.number == _SPARSE_INDICES:
            check_tensor(data, item)
    return name


def _check_constant(data: bytes, item: Field) -> None:
    """Check the tensors among the values of an attribute."""
    if item.number in _ATTRIBUTE_TENSORS:
        check_tensor(data, item)
    elif item.number in _ATTRIBUTE_SPARSE:
        _check_sparse_tensor(data, item)


def _signed(number: int) -> int:
    """The number that 64 bits mean."""
    return number - 2**64 if number >= 2**63 else number


def _add(places: dict[str, Field], name: str, place: Field) -> None:
    if name in places:
        raise MalformedMessageError(f"two inputs or two weights of a graph are called {name!r}")
    places[name] = place


def _parse(data: bytes, found: list[Field]) -> Outline:
    ir_version = 0
    contracts = []
    graphs, functions = [], []
    imports: dict[str, int] = {}
    for item in found:
        if item.number == _IR_VERSION:
            ir_version = item.value or 0
        elif item.number == MODEL_GRAPH:
            graphs.append(Graph.parse(data, item))
        elif item.number == _FUNCTIONS:
            functions.append(Function.parse(data, item))
        elif item.number == _OPSET_IMPORT:
            _add_import(data, item, imports)
        elif item.number == _TRAINING:
            raise MalformedMessageError("the model has graphs for training")
        elif item.number == MODEL_METADATA:
            entry = {part.number: part for part in messages.ENTRY.fields(data, item)}
            if _KEY in entry and _VALUE in entry and text(data, entry[_KEY]) == METADATA_KEY:
                contracts.append((entry[_VALUE].start, entry[_VALUE].stop))
    opset = next((imports[domain] for domain in _DEFAULT_DOMAINS if domain in imports), 0)
    return Outline(data, found, ir_version, opset, contracts, graphs[0], functions, imports)


def _add_import(data: bytes, place: Field, imports: dict[str, int]) -> None:
    entry = {item.number: item for item in messages.OPSET_IMPORT.fields(data, place)}
    domain = text(data, entry[_DOMAIN]) if _DOMAIN in entry else ""
    if domain in imports:
        raise MalformedMessageError(f"the domain {domain!r} is imported twice")
    imports[domain] = (entry[_VERSION].value or 0) if _VERSION in entry else 0
