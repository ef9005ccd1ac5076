"""Takes the policy step and the sub-step of a file apart into a model each, so that none pays for the choice.

Done on the bytes of the file, without the onnx package. Weights go to the step that reads them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from exploy.contract import Contract
from exploy.runtime.onnx import protobuf
from exploy.runtime.onnx.outline import (
    GRAPH_NAME,
    MODEL_GRAPH,
    MODEL_METADATA,
    VALUE_NAME,
    Graph,
    Node,
    Outline,
    name_in,
)
from exploy.runtime.onnx.protobuf import encoded

_MAX_SHARED_BYTES = 1 << 16  # of weights that both steps read, and that would be in memory twice


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


def split_steps(
    outline: Outline, contract: Contract, *, max_shared_bytes: int | None = _MAX_SHARED_BYTES
) -> tuple[StepModel, StepModel] | None:
    """The policy step and the sub-step of a file, or None where it is not of the form that allows it.

    That is: the ports are those of the contract, one `If` computes all outputs, and few weights are read by both of its
    branches. `max_shared_bytes` says how few; None for any.
    """
    data, graph, branches = outline.data, outline.graph, outline.branches
    if branches is None or any(branch.initializers for branch in branches) or not _is_described_by(contract, graph):
        return None
    passed = {memory.output: memory.input for memory in contract.memories}
    policy = _StepOfGraph(data, graph, branches[0], set(graph.output_names), passed)
    sub_step = _StepOfGraph(data, graph, branches[1], set(contract.sub_step_inputs), passed)
    shared = policy.weights & sub_step.weights
    shared_bytes = sum(graph.initializers[name].stop - graph.initializers[name].start for name in shared)
    if max_shared_bytes is not None and shared_bytes > max_shared_bytes:
        return None
    kept = [item for item in outline.fields if item.number not in (MODEL_GRAPH, MODEL_METADATA)]
    head = b"".join(data[item.tag : item.stop] for item in kept)
    return policy.model(head), sub_step.model(head)


def _is_described_by(contract: Contract, graph: Graph) -> bool:
    inputs, outputs = ([port.name for port in ports] for ports in (contract.inputs, contract.outputs))
    return inputs == list(graph.inputs) and outputs == graph.output_names


class _StepOfGraph:
    """What one branch needs of the graph around it, for some of the ports."""

    def __init__(self, data: bytes, outer: Graph, branch: Graph, computed: set[str], passed: dict[str, str]):
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
        graph = b"".join([*parts, encoded(GRAPH_NAME, b"exploy")])
        outputs = {port: self._name(place) for port, place in self._outputs.items()}
        return StepModel(head + encoded(MODEL_GRAPH, graph), outputs)

    def _name(self, place: protobuf.Field) -> str:
        return name_in(self._data, place, VALUE_NAME)


def _passes(producers: dict[str, Node], name: str, port: str | None) -> bool:
    """Whether a memory's value is what came in, unchanged."""
    while name in producers and producers[name].op_type == "Identity":
        name = producers[name].inputs[0]
    return name == port


def _needed(nodes: list[Node], outputs: Iterable[str]) -> list[Node]:
    """The nodes that some values are computed by, in order."""
    wanted, needed = set(outputs), []
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            wanted |= node.reads
            needed.append(node)
    return needed[::-1]
