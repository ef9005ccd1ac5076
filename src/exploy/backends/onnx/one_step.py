"""Names the ports of a lowered model that has one rate."""

import onnx_ir as ir

from exploy.backends.onnx.joined_steps import give_outputs_producers, name_weights
from exploy.capture.program import Program

_OPEN_SIZE = "batch"


def name_ports(model: ir.Model, program: Program) -> None:
    """Name the inputs, outputs, weights and dynamic sizes of a lowered model."""
    graph = model.graph
    name_weights(graph, program)
    give_outputs_producers(graph)
    ports = {*program.input_names, *program.policy_step_outputs}
    for index, value in enumerate(value for node in graph for value in node.outputs):
        value.name = f"{value.name or index}_" if value.name in ports else value.name
    for values, names in ((graph.inputs, program.input_names), (graph.outputs, program.policy_step_outputs)):
        for value, name in zip(values, names, strict=True):
            value.name = name
            assert value.shape is not None
            value.shape = ir.Shape([size if isinstance(size, int) else _OPEN_SIZE for size in value.shape])
    graph.name = "policy"
