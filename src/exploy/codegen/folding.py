"""Computes operators whose operands are all known, by onnxruntime, as the file would."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from exploy.codegen.graph import Node
from exploy.errors import LoweringError
from exploy.runtime.onnx.session import load_onnxruntime

_IR_VERSION = 10  # the least that has all types of the opsets


def constant_value(node: Node) -> np.ndarray:
    """The numbers of an operator `Constant`.

    Raises:
        LoweringError: If it is a text.
    """
    for name, value in node.attributes.items():
        if name == "value":
            return np.asarray(value)
        if name in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    raise LoweringError("C code cannot be written for constants that are texts or sparse.")


def fold(node: Node, operands: Mapping[str, np.ndarray], opset: int) -> Sequence[np.ndarray]:
    """Compute an operator.

    Raises:
        LoweringError: If onnxruntime cannot.
    """
    attributes: dict[str, Any] = {
        name: numpy_helper.from_array(value)
        if isinstance(value, np.ndarray)
        else helper.np_dtype_to_tensor_dtype(value)
        if isinstance(value, np.dtype)
        else value
        for name, value in node.attributes.items()
    }
    made = helper.make_node(node.op_type, list(node.inputs), list(node.outputs), **attributes)
    values = [numpy_helper.from_array(np.asarray(array, order="C"), name) for name, array in operands.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    graph = helper.make_graph([made], "constant", [], outputs, values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_IR_VERSION)
    runtime = load_onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found: Sequence[np.ndarray] = session.run(None, {})
    except Exception as error:
        raise LoweringError(f"The operator {node.op_type} of constants cannot be computed: {error}") from error
    results = iter(found)
    return [np.asarray(next(results)) if name else np.empty(0) for name in node.outputs]
