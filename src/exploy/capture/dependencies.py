"""Finds the nodes that each result of a graph is computed from."""

import operator
from collections.abc import Callable
from typing import Any

from torch import fx

from exploy.capture.recording import mutated_arguments, viewed_argument


def sources_of_results(graph: fx.Graph, is_source: Callable[[fx.Node], bool]) -> list[set[fx.Node]]:
    """For each result of a graph, the sources that its value may depend on.

    In-place writes are followed through views. A read of any part of a memory counts as a read of everything that was
    written to that memory before. So a source that is not listed is certain to have no influence.

    Args:
        graph: A graph of torch operators.
        is_source: Returns whether to list a node.
    """
    return _Flow(is_source).follow(graph)


class _Flow:
    """One pass over a graph, with sets of sources stored as bits of integers."""

    def __init__(self, is_source: Callable[[fx.Node], bool]):
        self._is_source = is_source
        self._sources: list[fx.Node] = []
        self._held: dict[fx.Node, int] = {}

    def follow(self, graph: fx.Graph) -> list[set[fx.Node]]:
        for node in graph.nodes:
            if node.op != "output":
                self._visit(node)
        results: Any = graph.output_node().args[0]
        return [self._nodes(self._read(node)) for node in results]

    def _visit(self, node: fx.Node) -> None:
        flowing = 0
        for source in node.all_input_nodes:
            flowing |= self._read(source)
        if self._is_source(node):
            flowing |= 1 << len(self._sources)
            self._sources.append(node)
        for target in (node, *mutated_arguments(node)):
            root = _root(target)
            self._held[root] = self._held.get(root, 0) | flowing

    def _read(self, node: fx.Node) -> int:
        return self._held[_root(node)]

    def _nodes(self, bits: int) -> set[fx.Node]:
        return {source for position, source in enumerate(self._sources) if bits >> position & 1}


def _root(node: fx.Node) -> fx.Node:
    """The node that this node is, or may be, a view of."""
    while True:
        viewed = node.args[0] if node.target is operator.getitem else viewed_argument(node)
        if not isinstance(viewed, fx.Node):
            return node
        node = viewed
