"""Removes the squeezes that torch adds around convolutions of a single image, so that runtimes can fuse nodes."""

import onnx_ir as ir

_ELEMENTWISE = ("Relu", "LeakyRelu", "Elu", "Selu", "Tanh", "Sigmoid", "Softplus", "HardSwish")


def drop_squeezes(graph: ir.Graph) -> None:
    """Rewrite `Unsqueeze(f(Squeeze(x)))` to `f(x)` for elementwise f. The values do not change."""
    for node in list(graph):
        if node.op_type == "Squeeze" and node.graph is graph:
            _push_down(graph, node)


def _push_down(graph: ir.Graph, squeeze: ir.Node) -> None:
    """Move a squeeze after the following elementwise nodes, until a matching unsqueeze follows."""
    while (user := _only_user(squeeze.outputs[0])) is not None:
        source, result = squeeze.inputs[0], user.outputs[0]
        if source is None or result.is_graph_output():
            return
        if user.op_type == "Unsqueeze" and _axes(user) == _axes(squeeze) is not None:
            ir.convenience.replace_all_uses_with(result, source)
            graph.remove([user, squeeze], safe=True)
            return
        if user.op_type not in _ELEMENTWISE:
            return
        later = ir.node("Squeeze", [result, squeeze.inputs[1]])
        later.outputs[0].name, later.outputs[0].type, later.outputs[0].shape = (
            f"{result.name}/squeezed",
            result.type,
            result.shape,
        )
        graph.insert_after(user, later)
        ir.convenience.replace_all_uses_with(result, later.outputs[0])
        later.replace_input_with(0, result)
        user.replace_input_with(0, source)
        result.shape = source.shape
        graph.remove(squeeze, safe=True)
        squeeze = later


def _only_user(value: ir.Value) -> ir.Node | None:
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None


def _axes(node: ir.Node) -> list[int] | None:
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    tensor = ir.convenience.get_const_tensor(axes) if axes is not None else None
    return None if tensor is None else [int(axis) for axis in tensor.numpy().reshape(-1)]
