"""Finds the outputs of a program that depend on the actions."""

from typing import Any

from torch import fx

from exploy.capture.dependencies import sources_of_results
from exploy.capture.program import ACTIONS, Program
from exploy.capture.recording import STAGE
from exploy.capture.two_rates import ACT


def outputs_of_actions(program: Program) -> set[str]:
    """Names of the outputs that depend on the result of the actor, directly or through a memory."""
    graph, names = program.module.graph, [*program.policy_step_outputs, *program.sub_step_outputs]
    results: Any = graph.output_node().args[0]
    actions = results[names.index(ACTIONS)].all_input_nodes  # an actor may return the observations as they are

    def is_source(node: fx.Node) -> bool:
        return node in actions or (node.op == "call_function" and node.meta.get(STAGE) == ACT)

    found = sources_of_results(graph, is_source)
    reached = {name for name, sources in zip(names, found, strict=True) if sources}
    memories = {memory.input_name: memory.output_name for memory in program.memories}
    while True:
        further = {
            name
            for step in program.sources
            for name, sources in step.items()
            if any(memories.get(source) in reached for source in sources.inputs)
        }
        if further <= reached:
            return reached
        reached |= further
