"""Refuses graphs that onnxruntime should not be given: cycles, values that nothing computes, unknown operators."""

from collections.abc import Iterable, Sequence

from exploy.contract.limits import MAX_NODES
from exploy.errors import ContractError
from exploy.runtime.onnx.outline import Function, Graph, Node, Outline

EXPORTED_DOMAINS = ("", "ai.onnx")
"""The operators that exports write. Others of onnxruntime read memory that is not theirs, given wrong shapes."""

DOMAINS_OF_ONNXRUNTIME = (
    *EXPORTED_DOMAINS,
    "ai.onnx.ml",
    "ai.onnx.preview",
    "ai.onnx.preview.training",
    "ai.onnx.training",
    "com.microsoft",
    "com.microsoft.experimental",
    "com.microsoft.nchwc",
    "org.pytorch.aten",
)
"""The domains that onnxruntime itself writes into an optimised model."""

_OUTSIDE_OF_THE_FILE = ("EPContext",)  # operators that read another file
_ANY_NUMBER = ("value_int",)  # of a Constant
_LOWEST = {"batch_dims": 0, "num_outputs": 1}  # of GatherND and Split; less ends the process
_DAMAGED = "Export the file again."


def require_sound(outline: Outline, name: str = "The file", domains: Sequence[str] = EXPORTED_DOMAINS) -> None:
    """Check a model before onnxruntime gets it.

    Args:
        outline: The model.
        name: Its name, for messages.
        domains: The domains of operators that it may use, besides its own functions.

    Raises:
        ContractError: If a value is read before it is computed (as in a cycle) or computed twice, an operator is of
            another domain, or the model is too large.
    """
    functions = {(found.domain, found.name): found for found in outline.functions}
    if len(functions) != len(outline.functions):
        raise ContractError(f"{name} has two functions of one name. {_DAMAGED}")
    graph = outline.whole_graph
    for imports in (outline.imports, *(found.imports for found in outline.functions)):
        _require_known(set(imports) - {domain for domain, _ in functions}, domains, name)
    _require_order(graph, set(), name)
    for found in outline.functions:
        _require_order(Graph(found.nodes, output_names=found.outputs), set(found.inputs), name)
    operators = _Operators(functions, domains, name)
    operators.add(graph.nodes, ())
    for called in functions:
        operators.add_function(called, ())


def _require_known(found: Iterable[str], domains: Sequence[str], name: str) -> None:
    unknown = [domain for domain in found if domain not in domains]
    if unknown:
        raise ContractError(
            f"{name} needs operators of {', '.join(map(repr, unknown))}; only standard operators of ONNX are run. "
            "Export it with exploy."
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


class _Operators:
    """Checks and counts the operators of a model, with those of the functions that it calls, each time that it does."""

    def __init__(self, functions: dict[tuple[str, str], Function], domains: Sequence[str], name: str):
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
            called = (node.domain, node.op_type)
            if called not in self._functions:
                _require_known([node.domain], self._domains, self._name)
            if node.op_type in _OUTSIDE_OF_THE_FILE:
                raise ContractError(
                    f"{self._name} has an operator {node.op_type!r}, which reads another file. {_DAMAGED}"
                )
            self._require_usual_numbers(node)
            count += sum(self.add(subgraph.nodes, callers) for subgraph in node.graphs.values())
            if called in self._functions:
                count += self.add_function(called, callers)
            if count > MAX_NODES:
                raise ContractError(f"{self._name} has more than {MAX_NODES} operators. {_DAMAGED}")
        return count

    def _require_usual_numbers(self, node: Node) -> None:
        """Refuse integers that end the process in some releases of onnxruntime, instead of an error."""
        for name, number in node.numbers.items():
            if name not in _ANY_NUMBER and not _LOWEST.get(name, -(2**31)) <= number < 2**31:
                raise ContractError(f"A node {node.op_type!r} of {self._name} has {name!r} = {number}. {_DAMAGED}")

    def add_function(self, called: tuple[str, str], callers: tuple[tuple[str, str], ...]) -> int:
        """Count the nodes of a function.

        Raises:
            ContractError: As add() does.
        """
        if called in callers:
            raise ContractError(f"The function {called[1]!r} of {self._name} calls itself. {_DAMAGED}")
        if called not in self._counted:
            self._counted[called] = self.add(self._functions[called].nodes, (*callers, called))
        return self._counted[called]
