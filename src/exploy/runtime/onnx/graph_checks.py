"""Refuses graphs that onnxruntime should not be given: cycles, values that nothing computes, unknown operators."""

from collections.abc import Iterable, Sequence

from exploy.contract.limits import MAX_NODES
from exploy.errors import ContractError
from exploy.runtime.onnx.outline import Function, Graph, Node, Outline

KNOWN_DOMAINS = (
    "",
    "ai.onnx",
    "ai.onnx.ml",
    "ai.onnx.preview",
    "ai.onnx.preview.training",
    "ai.onnx.training",
    "com.microsoft",
    "com.microsoft.experimental",
    "com.microsoft.nchwc",
    "org.pytorch.aten",
)
"""The domains that onnxruntime itself writes into an optimised model. Exports need the first only."""

_OUTSIDE_OF_THE_FILE = ("EPContext",)  # operators that read another file
_ANY_NUMBER = ("value_int",)  # of a Constant
_LOWEST = {"batch_dims": 0, "num_outputs": 1}  # of GatherND and Split; less ends the process
_DAMAGED = "Export the file again."


def require_sound(outline: Outline, name: str = "The file") -> None:
    """Check a model before onnxruntime gets it.

    Raises:
        ContractError: If a value is read before it is computed (as in a cycle) or computed twice, an operator is of a
            domain that onnxruntime does not know, or the model is too large.
    """
    functions = {(found.domain, found.name): found for found in outline.functions}
    if len(functions) != len(outline.functions):
        raise ContractError(f"{name} has two functions of one name. {_DAMAGED}")
    domains = {*KNOWN_DOMAINS, *(domain for domain, _ in functions)}
    graph = outline.whole_graph
    for imports in (outline.imports, *(found.imports for found in outline.functions)):
        _require_known(imports, domains, name)
    _require_order(graph, set(), name)
    for found in outline.functions:
        _require_order(Graph(found.nodes, output_names=found.outputs), set(found.inputs), name)
    _Size(functions, domains, name).add(graph.nodes, ())


def _require_known(found: Iterable[str], domains: set[str], name: str) -> None:
    unknown = [domain for domain in found if domain not in domains]
    if unknown:
        raise ContractError(
            f"{name} needs operators of {', '.join(map(repr, unknown))}, which onnxruntime does not have. Export it "
            "with standard operators."
        )


def _require_order(graph: Graph, outer: set[str], name: str) -> None:
    """Check that every value is computed once, before it is read. So a graph has no cycles."""
    inner = [*graph.inputs, *graph.initializers]
    known = outer.union(inner)
    computed: set[str] = set()
    for node in graph.nodes:
        for subgraph in node.graphs.values():
            _require_order(subgraph, known, name)
        _require_read(node.inputs, known, name, f"a node {node.op_type!r} reads")
        for output in node.outputs:
            if output and (output in computed or output in graph.inputs or output in graph.initializers):
                raise ContractError(f"The value {output!r} in the graph of {name} is computed twice. {_DAMAGED}")
            computed.add(output)
            known.add(output)
    _require_read(graph.output_names, known, name, "a graph returns")
    if len(set(graph.output_names)) != len(graph.output_names):
        raise ContractError(f"Two outputs in the graph of {name} have the same name. {_DAMAGED}")


def _require_read(names: Sequence[str], known: set[str], name: str, what: str) -> None:
    for value in names:
        if value and value not in known:
            raise ContractError(
                f"In {name}, {what} the value {value!r}, which nothing before it computes; perhaps the graph has a "
                f"cycle. {_DAMAGED}"
            )


class _Size:
    """Counts the operators of a model with those of the functions that it calls, each time that it calls them."""

    def __init__(self, functions: dict[tuple[str, str], Function], domains: set[str], name: str):
        self._functions = functions
        self._domains = domains
        self._name = name
        self._counted: dict[tuple[str, str], int] = {}

    def add(self, nodes: list[Node], callers: tuple[tuple[str, str], ...]) -> int:
        """Count nodes.

        Raises:
            ContractError: If there are too many, a function calls itself, or an operator is not known.
        """
        count = len(nodes)
        for node in nodes:
            _require_known([node.domain], self._domains, self._name)
            if node.op_type in _OUTSIDE_OF_THE_FILE:
                raise ContractError(
                    f"{self._name} has an operator {node.op_type!r}, which reads another file. {_DAMAGED}"
                )
            self._require_usual_numbers(node)
            count += sum(self.add(subgraph.nodes, callers) for subgraph in node.graphs.values())
            called = (node.domain, node.op_type)
            if called in self._functions:
                count += self._function(called, callers)
            if count > MAX_NODES:
                raise ContractError(f"{self._name} has more than {MAX_NODES} operators. {_DAMAGED}")
        return count

    def _require_usual_numbers(self, node: Node) -> None:
        """Refuse integers that end the process in some releases of onnxruntime, instead of an error."""
        for name, number in node.numbers.items():
            if name not in _ANY_NUMBER and not _LOWEST.get(name, -(2**31)) <= number < 2**31:
                raise ContractError(f"A node {node.op_type!r} of {self._name} has {name!r} = {number}. {_DAMAGED}")

    def _function(self, called: tuple[str, str], callers: tuple[tuple[str, str], ...]) -> int:
        if called in callers:
            raise ContractError(f"The function {called[1]!r} of {self._name} calls itself. {_DAMAGED}")
        if called not in self._counted:
            self._counted[called] = self.add(self._functions[called].nodes, (*callers, called))
        return self._counted[called]
