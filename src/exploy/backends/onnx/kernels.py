"""Checks that onnxruntime can compute every operator of a graph with the types that it has there."""

import functools
from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir

from exploy.errors import LoweringError
from exploy.runtime.onnx.session import load_onnxruntime

STACK_TRACE = "pkg.torch.onnx.stack_trace"
_FLOAT32_ONLY = ("LSTM", "GRU", "RNN")  # their kernels are registered for float64, and raise an error when they run

Types = dict[str, set[str]]


def require_kernels(graph: ir.Graph, opset: int) -> None:
    """Refuse operators for whose types the installed onnxruntime has no kernel.

    Raises:
        LoweringError: With the line of the first one, its operator and its type.
    """
    place = "unknown location"
    for node in graph:
        place = node.metadata_props.get(STACK_TRACE, place)
        lacking = _lacking(node, opset)
        if lacking is not None:
            raise LoweringError(
                f"{place}: onnxruntime cannot compute {node.op_type} of {lacking}. Convert the values before this "
                "line, for example with .float(), or use other operators."
            )


def _lacking(node: ir.Node, opset: int) -> str | None:
    """The type of an input for which an operator has no kernel; None if there is one, or nothing is known."""
    found = [value.dtype for value in node.inputs if value is not None and value.dtype is not None]
    if node.op_type in _FLOAT32_ONLY and ir.DataType.DOUBLE in found:
        return "float64"
    if node.domain not in ("", "ai.onnx"):
        return None
    names = _type_names(node.op_type, opset)
    kernels = _kernels().get(node.op_type, []) if names else []
    given: dict[str, str] = {}
    for name, value in zip(names, node.inputs, strict=False):
        if value is not None and value.dtype is not None:
            given.setdefault(name, f"tensor({_onnx_name(value.dtype)})")
    fitting = [types for first, last, types in kernels if first <= opset <= last]
    if not fitting or any(_takes(types, given) for types in fitting):
        return None
    return str(found[0].numpy()) if found else None


def _takes(types: Types, given: dict[str, str]) -> bool:
    return all(kind in types[name] for name, kind in given.items() if name in types)


def _onnx_name(dtype: ir.DataType) -> str:
    """The name of a type; onnxruntime computes float16 in float32 where it has no other kernel."""
    return "float" if dtype is ir.DataType.FLOAT16 else dtype.name.lower()


@functools.cache
def _type_names(op_type: str, opset: int) -> tuple[str, ...]:
    """The name of the type of each input, such as T; empty for operators that onnxruntime makes of others."""
    try:
        schema: Any = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return ()
    if schema.has_function or schema.has_context_dependent_function:
        return ()
    return tuple(_of_inputs(schema))


def _of_inputs(schema: Any) -> Iterator[str]:
    for item in schema.inputs:
        yield item.type_str
    if schema.inputs and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
        yield from [schema.inputs[-1].type_str] * 64


@functools.cache
def _kernels() -> dict[str, list[tuple[int, int, Types]]]:
    """The first and the last opset and the types of each kernel on a CPU, by operator; empty if that is not known."""
    state = getattr(load_onnxruntime().capi, "onnxruntime_pybind11_state", None)
    registered = getattr(state, "get_all_opkernel_def", list)
    found: dict[str, list[tuple[int, int, Types]]] = {}
    for kernel in registered():
        if kernel.provider == "CPUExecutionProvider" and kernel.domain in ("", "ai.onnx"):
            types = {name: set(kinds) for name, kinds in kernel.type_constraints.items()}
            found.setdefault(kernel.op_name, []).append((*kernel.version_range, types))
    return found
