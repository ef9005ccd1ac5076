"""Splits a recording of one policy step and two sub-steps into two functions, and finds the state between them.

A value that the policy step computes and the sub-step reads is state that crosses the boundary. If a registered Input
or Memory holds it, it is passed through that port. Otherwise it becomes a *carried* memory. The second recorded
sub-step shows where the first one stored each carried value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from exploy.capture.aliases import FED, VIEW, Region, alias_parent, shared_root
from exploy.capture.recording import STAGE, WHERE, Recording, mutated_arguments
from exploy.errors import CaptureError
from exploy.live.geometry import Geometry
from exploy.live.location import UNKNOWN

aten = torch.ops.aten

OBSERVE, ACT, PROCESS, FIRST_SUB_STEP, SECOND_SUB_STEP = (
    "observe",
    "act",
    "process",
    "sub_step_1",
    "sub_step_2",
)
SUB_STEPS = (FIRST_SUB_STEP, SECOND_SUB_STEP)


@dataclass(frozen=True)
class Boundary:
    """The values of the ports at the end of a stage: for each port, the node that copied its value."""

    inputs: dict[str, fx.Node]
    outputs: dict[str, fx.Node]


@dataclass(frozen=True)
class TwoRates:
    """One graph that computes policy step and sub-step. Its arguments are the ports, then the carried values.

    A carried value is state that crosses the rate boundary but is not registered. `carried` has its memory location,
    `carried_to` the line of code that reads it.
    """

    graph: fx.Graph
    carried: list[Geometry]
    carried_to: list[str]


@dataclass
class _Splitter:
    """Emits the policy step and finds which of its values the sub-step reads."""

    recording: Recording
    regions: list[Region]
    boundary: Boundary
    graph: fx.Graph = field(default_factory=fx.Graph)
    carried: dict[fx.Node, fx.Node] = field(default_factory=dict)

    def split(self, port_names: list[str], default: list[fx.Node], sub_step: list[fx.Node]) -> TwoRates:
        successors = self._match_sub_steps()
        arguments = [node for node in self.recording.graph.nodes if node.op == "placeholder"]
        ports = {name: self.graph.placeholder(f"port_{index}") for index, name in enumerate(port_names)}
        policy = dict(zip(arguments, ports.values(), strict=True))
        for root in self._crossing_roots():
            self.carried[root] = self.graph.placeholder(f"carried_{len(self.carried)}")
        self.copy_stage(policy, lambda stage: stage not in SUB_STEPS)
        results = [policy[node] for node in default]
        results += [self.clone(policy[root]) for root in self.carried]
        results += _SubStep(self, ports).emit(sub_step, [successors.get(root, root) for root in self.carried])
        self.graph.output(tuple(results))
        places = [self.geometry(root) for root in self.carried]
        return TwoRates(self.graph, places, [self._reading_line(root) for root in self.carried])

    def stage(self, node: fx.Node) -> str:
        return str(node.meta[STAGE])

    def copy_stage(self, mapping: dict[fx.Node, fx.Node], wanted: Callable[[str], bool]) -> None:
        for node in self.recording.graph.nodes:
            if node.op in ("call_function", "get_attr") and wanted(self.stage(node)):
                mapping[node] = self.graph.node_copy(node, lambda source: mapping[source])

    def clone(self, node: fx.Node) -> fx.Node:
        return self.graph.call_function(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})

    def geometry(self, root: fx.Node) -> Geometry:
        for region in self.regions:
            if region.root is root and region.root_geometry is not None:
                return region.root_geometry
        geometry = self.recording.geometry(root)
        assert geometry is not None
        return geometry

    # -- values that cross the boundary -----------------------------------------------------------------------------

    def external_reads(self, stage: str) -> list[fx.Node]:
        """Nodes of earlier stages that this stage uses, except constants, in order of first use."""
        reads: dict[fx.Node, None] = {}
        for node in self.recording.graph.nodes:
            if node.meta.get(STAGE) != stage:
                continue
            for source in node.all_input_nodes:
                if self.stage(source) != stage and source.op != "get_attr":
                    reads[source] = None
        return list(reads)

    def _reading_line(self, root: fx.Node) -> str:
        """The first line of code in the first sub-step that reads the memory of `root`."""
        for node in self._nodes_of(FIRST_SUB_STEP):
            is_read = any(self.root(source) is root for source in node.all_input_nodes)
            if is_read and node.meta.get(WHERE, UNKNOWN) != UNKNOWN:
                return str(node.meta[WHERE])
        return ""

    def _crossing_roots(self) -> list[fx.Node]:
        roots: dict[fx.Node, None] = {}
        for node in self.external_reads(FIRST_SUB_STEP):
            root = self.root(node)
            if root.op != "get_attr" and self.port_covering(root) is None and not self.is_constant(root):
                roots[root] = None
        return list(roots)

    def root(self, node: fx.Node) -> fx.Node:
        return shared_root(self.recording, node)

    def region(self, root: fx.Node) -> Region | None:
        return next((region for region in self.regions if region.root is root), None)

    def is_constant(self, root: fx.Node) -> bool:
        """Whether outside memory is constant at a sub-step, except for the ports in it."""
        region = self.region(root)
        if region is None:
            return False
        feeding = {argument.node for argument in region.arguments}
        for node in self.recording.graph.nodes:
            if node.meta.get(FED) in feeding:
                continue
            if any(self.root(target) is root for target in mutated_arguments(node)):
                return False
        return len(self.ports_in(root)) >= len(region.arguments)

    def ports_in(self, root: fx.Node) -> dict[str, fx.Node]:
        """Ports whose tensor is in this memory at the boundary, each with its node."""
        held = {name: clone.args[0] for name, clone in self.boundary.inputs.items()}
        return {name: node for name, node in held.items() if self.root(node) is root}  # type: ignore[arg-type,misc]

    def port_covering(self, root: fx.Node) -> str | None:
        """The port that holds all of this memory at the boundary, or None."""
        for name, node in self.ports_in(root).items():
            if self._is_whole(node, root):
                return name
        return None

    def _is_whole(self, node: fx.Node, root: fx.Node) -> bool:
        while node is not root:
            parent = alias_parent(self.recording, node)
            if parent is None or not mutated_arguments(node):
                own = None if node.meta.get(VIEW) else self.recording.geometry(node)
                return own is not None and own.same_place(self.geometry(root))
            node = parent
        return True

    # -- the two recorded sub-steps ---------------------------------------------------------------------------------

    def _match_sub_steps(self) -> dict[fx.Node, fx.Node]:
        """For each outside root that the first sub-step reads: the root that the second sub-step reads instead."""
        first, second = (self._nodes_of(stage) for stage in SUB_STEPS)
        successors: dict[fx.Node, fx.Node] = {}
        for index in range(max(len(first), len(second))):
            one = first[index] if index < len(first) else None
            two = second[index] if index < len(second) else None
            if one is None or two is None or one.target != two.target or not _same_plain_arguments(one, two):
                raise CaptureError(_different_sub_steps(one, two))
            for source, later in zip(one.all_input_nodes, two.all_input_nodes, strict=True):
                if self.stage(source) == FIRST_SUB_STEP or source.op == "get_attr" or later.op == "get_attr":
                    continue
                root, successor = self.root(source), self.root(later)
                if successors.setdefault(root, successor) is not successor:
                    raise CaptureError(_different_sub_steps(one, two))
        return successors

    def _nodes_of(self, stage: str) -> list[fx.Node]:
        return [
            node
            for node in self.recording.graph.nodes
            if node.op == "call_function" and self.stage(node) == stage and not node.meta.get(VIEW)
        ]


@dataclass
class _SubStep:
    """Emits the sub-step: roots with their values after the policy step, views of them, then the recorded nodes."""

    splitter: _Splitter
    ports: dict[str, fx.Node]
    mapping: dict[fx.Node, fx.Node] = field(default_factory=dict)

    def emit(self, outputs: list[fx.Node], left_behind: list[fx.Node]) -> list[fx.Node]:
        splitter = self.splitter
        for node in splitter.external_reads(FIRST_SUB_STEP):
            self._materialise(node)
        for root in left_behind:
            if splitter.stage(root) != FIRST_SUB_STEP:
                self._materialise(root)
        splitter.copy_stage(self.mapping, lambda stage: stage == FIRST_SUB_STEP)
        results = [self.mapping[node] for node in outputs]
        return results + [splitter.clone(self.mapping[root]) for root in left_behind]

    def _materialise(self, node: fx.Node) -> fx.Node:
        """The value that a node of an earlier stage has at the start of the sub-step."""
        if node not in self.mapping:
            parent = alias_parent(self.splitter.recording, node)
            if node.op == "get_attr":
                self.mapping[node] = self.splitter.graph.node_copy(node)
            elif parent is None:
                self.mapping[node] = self._root_value(node)
            elif mutated_arguments(node):
                self.mapping[node] = self._materialise(parent)
            else:
                for source in node.all_input_nodes:
                    self._materialise(source)
                self.mapping[node] = self.splitter.graph.node_copy(node, lambda source: self.mapping[source])
        return self.mapping[node]

    def _root_value(self, root: fx.Node) -> fx.Node:
        splitter = self.splitter
        covering = splitter.port_covering(root)
        if covering is not None:
            return splitter.clone(self.ports[covering])
        value = splitter.clone(self._content(root))
        self.mapping[root] = value
        for name, node in splitter.ports_in(root).items():
            splitter.graph.call_function(aten.copy_.default, (self._materialise(node), self.ports[name]))
        return value

    def _content(self, root: fx.Node) -> fx.Node:
        if root in self.splitter.carried:
            return self.splitter.carried[root]
        region = self.splitter.region(root)
        source = root.args[0] if region is not None else None
        if not isinstance(source, fx.Node) or source.op != "get_attr":
            raise CaptureError(
                f"{root.meta.get(WHERE, 'apply_actions()')}: apply_actions() reads a value from the policy step that "
                "cannot be carried over to a sub-step. Register it as a Memory."
            )
        return self.splitter.graph.node_copy(source)


def split_rates(
    recording: Recording,
    regions: list[Region],
    boundary: Boundary,
    port_names: list[str],
    policy_step_outputs: list[fx.Node],
    sub_step_outputs: list[fx.Node],
) -> TwoRates:
    """Build one graph with the results of policy step and sub-step.

    Args:
        recording: A recording with the stages of one policy step and two sub-steps, after `tie_aliases`.
        regions: The regions that `tie_aliases` returned.
        boundary: The values of the ports after the policy step.
        port_names: Names of the recording's arguments, in their order.
        policy_step_outputs: Nodes whose values the policy step returns.
        sub_step_outputs: Nodes of the first sub-step whose values the sub-step returns.

    Raises:
        CaptureError: If two consecutive sub-steps differ, or a value cannot be carried over.
    """
    return _Splitter(recording, regions, boundary).split(port_names, policy_step_outputs, sub_step_outputs)


def _same_plain_arguments(one: fx.Node, two: fx.Node) -> bool:
    if len(one.all_input_nodes) != len(two.all_input_nodes):
        return False

    def plain(node: fx.Node) -> Any:
        return fx.node.map_aggregate((node.args, node.kwargs), _comparable)

    return bool(plain(one) == plain(two))


def _comparable(argument: Any) -> Any:
    if isinstance(argument, fx.Node):
        return None
    return "nan" if isinstance(argument, float) and math.isnan(argument) else argument


def _different_sub_steps(one: fx.Node | None, two: fx.Node | None) -> str:
    place = next(
        (str(node.meta[WHERE]) for node in (one, two) if node is not None and WHERE in node.meta),
        "apply_actions()",
    )
    return (
        f"{place}: apply_actions() does different things in two consecutive sub-steps, probably because of a Python "
        "counter or flag, which cannot be exported. Keep such state in a tensor, register it as a Memory, and "
        "use torch.where()."
    )
