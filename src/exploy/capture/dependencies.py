"""Finds the nodes that each result of a graph is computed from."""

import operator
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from exploy.capture.recording import OVERWRITES, mutated_arguments, viewed_argument

_aten = torch.ops.aten
_WHOLE_VIEWS = (
    _aten.alias.default, _aten.detach.default, _aten.view.default, _aten.reshape.default, _aten.squeeze.default,
    _aten.squeeze.dim, _aten.unsqueeze.default, _aten.t.default, _aten.transpose.int, _aten.permute.default,
)  # fmt: skip


def sources_of_results(graph: fx.Graph, is_source: Callable[[fx.Node], bool]) -> list[set[fx.Node]]:
    """For each result of a graph, the sources that its value may depend on.

    In-place writes are followed through views. A read of any part of a memory counts as a read of everything that was
    written to that memory since it was last overwritten as a whole. So a source that is not listed is certain to have
    no influence.

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
        written = mutated_arguments(node)
        overwritten = [item for item in written if node.target in OVERWRITES and _is_whole(item)]
        flowing = 0
        for source in node.all_input_nodes:
            flowing |= 0 if source in overwritten else self._read(source)
        if self._is_source(node):
            flowing |= 1 << len(self._sources)
            self._sources.append(node)
        for target in overwritten:
            self._held[memory_of(target)] = 0
        for target in (node, *written):
            root = memory_of(target)
            self._held[root] = self._held.get(root, 0) | flowing

    def _read(self, node: fx.Node) -> int:
        return self._held[memory_of(node)]

    def _nodes(self, bits: int) -> set[fx.Node]:
        return {source for position, source in enumerate(self._sources) if bits >> position & 1}


def _is_whole(node: fx.Node) -> bool:
    """Whether a node is all of the memory that it is a view of."""
    while True:
        viewed = viewed_argument(node)
        if viewed is None:
            return node.target is not operator.getitem
        if not (mutated_arguments(node) or node.target in _WHOLE_VIEWS or _is_whole_slice(node)):
            return False
        node = viewed


def _is_whole_slice(node: fx.Node) -> bool:
    if node.target is not _aten.slice.Tensor:
        return False
    given: list[Any] = [*node.args[2:], None, None, None]
    return given[0] in (None, 0) and given[1] in (None, sys.maxsize) and given[2] in (None, 1)


def memory_of(node: fx.Node) -> fx.Node:
    """The node that owns the memory of a node: the one that it is, or may be, a view of."""
    while True:
        viewed = node.args[0] if node.target is operator.getitem else viewed_argument(node)
        if not isinstance(viewed, fx.Node):
            return node
        node = viewed
