"""Converts a model to an opset that is older than those that torch can write."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from exploy.errors import LoweringError

OLDEST_OF_TORCH = 18
_OLDEST = 11
_REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp")

Rewrite = Callable[[ir.Node, "_Tape"], ir.Value | None]


def in_older_opset(model: ir.Model, opset_version: int) -> ir.Model:
    """Convert a model to an older opset. The given model is modified.

    Raises:
        LoweringError: If an operator has no form in that opset, or the opset is too old.
    """
    if opset_version < _OLDEST:
        raise LoweringError(
            f"Opset {opset_version} was requested, but {_OLDEST} is the oldest supported opset. "
            "Choose another opset_version."
        )
    newer = model.graph.opset_imports[""]
    for node in list(model.graph):
        for below, operators, rewrite in _REWRITES:
            if opset_version < below and node.op_type in operators:
                _apply(model.graph, node, rewrite)
    RemoveUnusedNodesPass()(model)
    for node in model.graph:
        _fit_to_schema(node, newer, opset_version)
    model.graph.opset_imports[""] = opset_version
    try:
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise _unreachable(opset_version, str(error).strip().splitlines()[0]) from error
    return model


class _Tape:
    """Collects the nodes that replace another node."""

    def __init__(self, like: ir.Node):
        self.nodes: list[ir.Node] = []
        self._like = like

    def op(self, name: str, *inputs: ir.Value, **attributes: Any) -> ir.Value:
        node = ir.node(name, inputs, attributes=attributes)
        node.outputs[0].name = f"{self._like.outputs[0].name}/{len(self.nodes)}"
        self.nodes.append(node)
        return node.outputs[0]

    def number(self, value: float, like: ir.Value) -> ir.Value:
        """A constant with the dtype of another value."""
        assert like.dtype is not None
        return self.op("Constant", value=ir.tensor(np.array(value, dtype=like.dtype.numpy())))


def _apply(graph: ir.Graph, node: ir.Node, rewrite: Rewrite) -> None:
    """Replace a node by other nodes, unless the rewrite changed the node itself."""
    tape = _Tape(node)
    result = rewrite(node, tape)
    if result is None:
        return
    old = node.outputs[0]
    result.type, result.shape = old.type, old.shape
    graph.insert_before(node, tape.nodes)
    ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    result.name = old.name


def _layer_normalization(node: ir.Node, tape: _Tape) -> ir.Value:
    x, scale, *bias = (value for value in node.inputs if value is not None)
    axis = node.attributes.get_int("axis", -1)
    assert x.shape is not None
    axes = list(range(axis % x.shape.rank(), x.shape.rank()))
    centred = tape.op("Sub", x, tape.op("ReduceMean", x, axes=axes, keepdims=1))
    variance = tape.op("ReduceMean", tape.op("Mul", centred, centred), axes=axes, keepdims=1)
    epsilon = tape.number(node.attributes.get_float("epsilon", 1e-5), x)
    result = tape.op("Div", centred, tape.op("Sqrt", tape.op("Add", variance, epsilon)))
    result = tape.op("Mul", result, scale)
    return tape.op("Add", result, bias[0]) if bias else result


def _gelu(node: ir.Node, tape: _Tape) -> ir.Value:
    (x,) = node.inputs
    assert x is not None
    if node.attributes.get_string("approximate", "none") == "tanh":
        cube = tape.op("Mul", tape.op("Mul", x, x), x)
        inner = tape.op("Add", x, tape.op("Mul", cube, tape.number(0.044715, x)))
        curve = tape.op("Tanh", tape.op("Mul", inner, tape.number(math.sqrt(2 / math.pi), x)))
    else:
        curve = tape.op("Erf", tape.op("Mul", x, tape.number(math.sqrt(0.5), x)))
    half = tape.op("Mul", x, tape.number(0.5, x))
    return tape.op("Mul", half, tape.op("Add", curve, tape.number(1.0, x)))


def _or_equal(strict: str) -> Rewrite:
    def rewrite(node: ir.Node, tape: _Tape) -> ir.Value:
        left, right = node.inputs
        assert left is not None and right is not None
        return tape.op("Or", tape.op(strict, left, right), tape.op("Equal", left, right))

    return rewrite


def _clip(node: ir.Node, tape: _Tape) -> ir.Value | None:
    """Replace Clip by Max and Min. Before opset 12, onnxruntime clips only float32."""
    value, low, high = (*node.inputs, None, None)[:3]
    assert value is not None
    if value.dtype == ir.DataType.FLOAT:
        return None
    result = tape.op("Max", value, low) if low is not None else value
    return tape.op("Min", result, high) if high is not None else result


def _second_input_as(attribute: str) -> Rewrite:
    """Move axes or sizes from the second input to an attribute, as in older opsets."""

    def rewrite(node: ir.Node, tape: _Tape) -> None:
        value = node.inputs[1] if len(node.inputs) > 1 else None
        if value is None:
            return
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is None:
            raise LoweringError(
                f"The {attribute} of {node.op_type} are computed, but older opsets only allow constants. "
                "Choose a newer opset_version."
            )
        node.attributes.add(ir.AttrInt64s(attribute, [int(number) for number in tensor.numpy().reshape(-1)]))
        node.resize_inputs(1)

    return rewrite


def _split_sizes(node: ir.Node, tape: _Tape) -> None:
    """Replace the number of equal parts by the sizes of the parts."""
    count = node.attributes.get_int("num_outputs", 0)
    if not count:
        return
    source = node.inputs[0]
    assert source is not None and source.shape is not None
    size = source.shape[node.attributes.get_int("axis", 0)]
    if not isinstance(size, int):
        raise LoweringError("A Split along a dynamic size has no form in older opsets. Choose a newer opset_version.")
    part = -(-size // count)
    sizes = [min(part, size - part * index) for index in range(count)]
    constant = ir.node("Constant", [], attributes={"value": ir.tensor(np.array(sizes, dtype=np.int64))})
    constant.outputs[0].name = f"{node.outputs[0].name}/sizes"
    assert node.graph is not None
    node.graph.insert_before(node, constant)
    node.resize_inputs(2)
    node.replace_input_with(1, constant.outputs[0])
    del node.attributes["num_outputs"]


def _reshape(node: ir.Node, tape: _Tape) -> None:
    """Drop `allowzero`. Older opsets always replace a size of 0 by the size of the input."""
    sizes = ir.convenience.get_const_tensor(node.inputs[1]) if node.inputs[1] is not None else None
    if node.attributes.get_int("allowzero", 0) and sizes is not None and not sizes.numpy().all():
        raise LoweringError("A Reshape to a size of 0 has no form in older opsets. Choose a newer opset_version.")
    node.attributes.pop("allowzero", None)


def _part_of_a_shape(node: ir.Node, tape: _Tape) -> ir.Value | None:
    """Slice the shape. Before opset 15, Shape always returns all sizes."""
    if not {"start", "end"} & set(node.attributes):
        return None
    (x,) = node.inputs
    assert x is not None and x.shape is not None
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", x.shape.rank())
    bounds = [tape.op("Constant", value=ir.tensor(np.array([bound], dtype=np.int64))) for bound in (start, end)]
    return tape.op("Slice", tape.op("Shape", x), *bounds)


def _softmax_over_the_last(node: ir.Node, tape: _Tape) -> None:
    """Require the last dimension. Before opset 13, all dimensions from the axis on are combined."""
    source = node.inputs[0]
    assert source is not None and source.shape is not None
    axis = node.attributes.get_int("axis", -1)
    if axis % source.shape.rank() != source.shape.rank() - 1:
        raise LoweringError(
            f"A {node.op_type} that is not over the last dimension has no form in older opsets. "
            "Choose a newer opset_version."
        )
    node.attributes.add(ir.AttrInt64("axis", source.shape.rank() - 1))


_REWRITES: tuple[tuple[int, tuple[str, ...], Rewrite], ...] = (
    (20, ("Gelu",), _gelu),
    (18, _REDUCTIONS, _second_input_as("axes")),
    (18, ("Split",), _split_sizes),
    (17, ("LayerNormalization",), _layer_normalization),
    (15, ("Shape",), _part_of_a_shape),
    (14, ("Reshape",), _reshape),
    (13, ("ReduceSum", "Squeeze", "Unsqueeze"), _second_input_as("axes")),
    (13, ("Split",), _second_input_as("split")),
    (13, ("Softmax", "LogSoftmax"), _softmax_over_the_last),
    (12, ("Clip",), _clip),
    (12, ("LessOrEqual",), _or_equal("Less")),
    (12, ("GreaterOrEqual",), _or_equal("Greater")),
)


def _fit_to_schema(node: ir.Node, newer: int, older: int) -> None:
    """Drop attributes that the older opset does not have, if they have their default value."""
    try:
        schema = onnx.defs.get_schema(node.op_type, older)
    except onnx.defs.SchemaError:
        raise _unreachable(older, f"the operator {node.op_type} is newer") from None
    defaults = onnx.defs.get_schema(node.op_type, newer).attributes
    for name in [name for name in node.attributes if name not in schema.attributes]:
        default = defaults[name].default_value if name in defaults else None
        usual = onnx.helper.get_attribute_value(default) if default is not None and default.name else None
        if node.attributes[name].value != (usual.decode() if isinstance(usual, bytes) else usual):
            raise _unreachable(older, f"{node.op_type} has no attribute {name} there")
        del node.attributes[name]


def _unreachable(opset_version: int, reason: str) -> LoweringError:
    return LoweringError(
        f"Opset {opset_version} was requested, but the graph cannot be expressed in it: {reason}. "
        "Choose another opset_version."
    )
