"""Reads the steps of an ONNX file as operators in order, with what is constant computed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import version_converter
from onnx_ir.passes.common import InlinePass

from exploy.contract import Contract
from exploy.errors import LoweringError
from exploy.runtime.onnx.outline import Outline
from exploy.runtime.onnx.split import split_steps

OLDEST_OPSET, NEWEST_OPSET = 18, 24  # that the operators were written for
OLDEST_CONVERTED = 11  # older ones than the first are converted to it
_RANDOM = ("Random", "Bernoulli", "Multinomial")


@dataclass(frozen=True)
class Node:
    """An operator of a graph.

    Args:
        op_type: The operator.
        attributes: Its attributes; tensors are numpy arrays, types are numpy dtypes.
        inputs: The names of its operands; empty for those that are left out.
        outputs: The names of its results; empty for those that are left out.
        name: Its own name, by which the exporter knows the line of the environment.
    """

    op_type: str
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str

    @property
    def is_random(self) -> bool:
        """Whether it draws numbers."""
        return self.op_type.startswith(_RANDOM)


@dataclass(frozen=True)
class StepGraph:
    """One step of a file.

    Args:
        inputs: The ports that it reads.
        outputs: For each port that it computes, the name of the value.
        constants: Numbers by their names.
        nodes: The operators, in order.
        opset: The version of the operators.
    """

    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    nodes: tuple[Node, ...]
    opset: int


def read_steps(data: bytes, contract: Contract, outline: Outline | None = None) -> list[StepGraph]:
    """Read the policy step and the sub-step of a file, or the only step of a file with one rate.

    Args:
        data: The bytes of an ONNX file.
        contract: What it says about itself.
        outline: The parsed bytes, if they were parsed already.

    Raises:
        LoweringError: If C code cannot be written for the file as a whole: other opsets, or steps that cannot be taken
            apart.
    """
    if outline is None:
        outline = Outline.parse(data)
    models = split_steps(outline, contract, max_shared_bytes=None)
    if models is not None:
        return [_read(model.data, model.outputs) for model in models[: min(2, contract.decimation)]]
    if contract.decimation > 1 or outline.branches is not None:
        raise LoweringError(
            "C code cannot be written for this file: its policy step and its sub-step cannot be taken apart. Export it "
            "again with exploy."
        )
    return [_read(data, {port.name: port.name for port in contract.outputs})]


def _read(data: bytes, outputs: Mapping[str, str]) -> StepGraph:
    model = ir.serde.deserialize_model(_converted(onnx.ModelProto.FromString(data)))
    opset = model.graph.opset_imports.get("", 0)
    if model.functions:
        InlinePass()(model)
    graph = model.graph
    constants = {name: _array(value.const_value) for name, value in graph.initializers.items()}
    inputs = tuple(str(value.name) for value in graph.inputs if value.name not in constants)
    return StepGraph(inputs, dict(outputs), constants, tuple(_nodes(graph)), opset)


def _converted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in an opset that C code can be written for.

    Raises:
        LoweringError: If it is too old or too new, or cannot be converted.
    """
    opset = next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), 0)
    if not OLDEST_CONVERTED <= opset <= NEWEST_OPSET:
        raise LoweringError(
            f"C code can be written for files of the opsets {OLDEST_CONVERTED} to {NEWEST_OPSET}; this one has "
            f"{opset}. Export it again with another opset."
        )
    if opset >= OLDEST_OPSET:
        return model
    try:
        return version_converter.convert_version(model, OLDEST_OPSET)
    except Exception as error:
        raise LoweringError(
            f"C code is written from the opset {OLDEST_OPSET} on, and this file has the opset {opset}, from which it "
            f"cannot be converted: {error}. Export it again with a newer opset."
        ) from error


def _nodes(graph: ir.Graph) -> Iterator[Node]:
    for node in graph:
        if node.domain not in ("", "ai.onnx"):
            raise LoweringError(f"C code cannot be written for the operator {node.domain}.{node.op_type}.")
        yield Node(
            node.op_type,
            {name: _attribute(node, item) for name, item in node.attributes.items()},
            tuple(str(value.name) if value is not None else "" for value in node.inputs),
            tuple(str(value.name or "") for value in node.outputs),
            str(node.name or ""),
        )


def _attribute(node: ir.Node, item: Any) -> Any:
    if item.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        raise LoweringError(
            f"C code cannot be written for the operator {node.op_type}, which chooses or repeats a part of the graph. "
            "Use torch.where(), or the backend 'onnx'."
        )
    if item.type == ir.AttributeType.TENSOR:
        return _array(item.value)
    if node.op_type in ("Cast", "EyeLike", "RandomNormal", "RandomUniform") and item.name in ("to", "dtype"):
        return ir.DataType(item.value).numpy()
    return item.value


def _array(tensor: Any) -> np.ndarray:
    if tensor.dtype == ir.DataType.STRING:
        raise LoweringError("C code cannot be written for texts.")
    return np.asarray(tensor.numpy())
