"""What is where in the bytes of an ONNX file: parsed once, without the onnx package."""

from dataclasses import dataclass, field
from functools import cached_property

from exploy.contract import METADATA_KEY
from exploy.errors import ContractError
from exploy.runtime.onnx import protobuf
from exploy.runtime.onnx.protobuf import fields, text

# Numbers of fields in onnx.proto: of a model, of an entry of its metadata, of an opset import, of a graph, of a node.
_IR_VERSION, MODEL_GRAPH, _OPSET_IMPORT, MODEL_METADATA, _MODEL_FUNCTIONS = 1, 7, 8, 14, 25
_KEY, _VALUE = 1, 2
_DOMAIN, _VERSION = 1, 2
_NODE, GRAPH_NAME, _INITIALIZER, _INPUT, _OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _OP_TYPE, _ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 1, 6, 11
_TENSOR_NAME, _RAW_DATA, VALUE_NAME = 8, 9, 1
_DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass
class Node:
    """An operator: where it is, what it reads and gives, and the graphs that are its attributes."""

    place: protobuf.Field
    op_type: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    graphs: dict[str, "Graph"] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)

    @classmethod
    def parse(cls, data: bytes, place: protobuf.Field) -> "Node":
        """Parse a node; `reads` has what its subgraphs read as well."""
        node = cls(place)
        for item in fields(data, place.start, place.stop):
            if item.number == _NODE_INPUT:
                node.inputs.append(text(data, item))
            elif item.number == _NODE_OUTPUT:
                node.outputs.append(text(data, item))
            elif item.number == _OP_TYPE:
                node.op_type = text(data, item)
            elif item.number == _ATTRIBUTE:
                node._parse_attribute(data, item)
        node.reads |= set(node.inputs)
        return node

    def _parse_attribute(self, data: bytes, place: protobuf.Field) -> None:
        name = ""
        for item in fields(data, place.start, place.stop):
            if item.number == _ATTRIBUTE_NAME:
                name = text(data, item)
            elif item.number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
                graph = self.graphs[name] = Graph.parse(data, item)
                self.reads |= {read for node in graph.nodes for read in node.reads}


@dataclass
class Graph:
    """A graph: its nodes, and where its weights, inputs and outputs are."""

    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, protobuf.Field] = field(default_factory=dict)
    inputs: dict[str, protobuf.Field] = field(default_factory=dict)
    outputs: list[protobuf.Field] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, data: bytes, place: protobuf.Field) -> "Graph":
        """Parse a graph and the graphs inside of it."""
        graph = cls()
        for item in fields(data, place.start, place.stop):
            if item.number == _NODE:
                graph.nodes.append(Node.parse(data, item))
            elif item.number == _INITIALIZER:
                graph.initializers[name_in(data, item, _TENSOR_NAME)] = item
            elif item.number == _INPUT:
                graph.inputs[name_in(data, item, VALUE_NAME)] = item
            elif item.number == _OUTPUT:
                graph.outputs.append(item)
                graph.output_names.append(name_in(data, item, VALUE_NAME))
        return graph


@dataclass(frozen=True)
class Outline:
    """The parts of a model, as places in its bytes. The graph is parsed when it is first asked for.

    Args:
        data: The bytes of the model.
        fields: The top-level fields of the model.
        ir_version: Version of the file format; 0 where it is not given.
        opset: Version of the ONNX operators; 0 where it is not given.
        contracts: Where the values of the metadata entries called `exploy.contract` start and stop.
    """

    data: bytes
    fields: list[protobuf.Field]
    ir_version: int
    opset: int
    contracts: list[tuple[int, int]]

    @classmethod
    def parse(cls, data: bytes, name: str = "The file") -> "Outline":
        """Parse the bytes of a model.

        Raises:
            ContractError: If they are not an ONNX model.
        """
        try:
            outline = _parse(data)
        except protobuf.MalformedMessageError as error:
            raise ContractError(
                f"{name} is not an ONNX file, or is truncated or damaged ({error}). Copy it again, or export it again."
            ) from None
        if not any(item.number == MODEL_GRAPH for item in outline.fields):
            raise ContractError(
                f"{name} is not an ONNX file: it has no graph. Give the path of an exported policy.onnx."
            )
        return outline

    @cached_property
    def graph(self) -> Graph:
        """The graph; an empty one where the model has functions, whose nodes are not in the graph.

        Raises:
            ContractError: If it is damaged.
        """
        places = [item for item in self.fields if item.number == MODEL_GRAPH]
        if len(places) != 1 or any(item.number == _MODEL_FUNCTIONS for item in self.fields):
            return Graph()
        try:
            return Graph.parse(self.data, places[0])
        except protobuf.MalformedMessageError as error:
            raise ContractError(f"The graph of the file is damaged ({error}). Export it again.") from None

    @cached_property
    def branches(self) -> tuple[Graph, Graph] | None:
        """Policy step and sub-step, where the graph does nothing but choose one of them by the step count."""
        if [node.op_type for node in self.graph.nodes] != ["Mod", "Equal", "If"]:
            return None
        choice = self.graph.nodes[-1]
        if choice.outputs != self.graph.output_names or set(choice.graphs) != {"then_branch", "else_branch"}:
            return None
        return choice.graphs["then_branch"], choice.graphs["else_branch"]

    @property
    def decimation(self) -> int | None:
        """By how many ticks the graph chooses its step; None where it has no branches or another form."""
        divisor = self.graph.nodes[0].inputs[1] if self.branches is not None else None
        place = self.graph.initializers.get(divisor) if divisor is not None else None
        if place is None:
            return None
        raw = [item for item in fields(self.data, place.start, place.stop) if item.number == _RAW_DATA]
        return int.from_bytes(self.data[raw[0].start : raw[0].stop], "little") if raw else None


def name_in(data: bytes, place: protobuf.Field, number: int) -> str:
    """The string in a field of a message, by the number of the field; empty where there is none."""
    names = (text(data, item) for item in fields(data, place.start, place.stop) if item.number == number)
    return next(names, "")


def _parse(data: bytes) -> Outline:
    ir_version = opset = 0
    contracts = []
    found = list(fields(data))
    for item in found:
        if item.number == _IR_VERSION:
            ir_version = item.value or 0
        elif item.number == _OPSET_IMPORT:
            entry = _entry(data, item)
            if _DOMAIN not in entry or text(data, entry[_DOMAIN]) in _DEFAULT_DOMAINS:
                opset = (entry[_VERSION].value or 0) if _VERSION in entry else 0
        elif item.number == MODEL_METADATA:
            entry = _entry(data, item)
            if _KEY in entry and _VALUE in entry and text(data, entry[_KEY]) == METADATA_KEY:
                contracts.append((entry[_VALUE].start, entry[_VALUE].stop))
    return Outline(data, found, ir_version, opset, contracts)


def _entry(data: bytes, place: protobuf.Field) -> dict[int, protobuf.Field]:
    return {item.number: item for item in fields(data, place.start, place.stop)}
