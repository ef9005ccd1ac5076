"""Gives numbers of the code all their digits where it computes in float64: torch's exporter rounds them to float32."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import onnx_ir as ir
from torch import fx

from exploy.errors import LoweringError


def restore_float64_numbers(model: ir.Model, graph: fx.Graph, stored: Iterable[str]) -> None:
    """Replace float64 constants that are rounded numbers of the code by these numbers.

    Args:
        model: The lowered model.
        graph: The graph that it was made of, with the numbers as arguments of its nodes.
        stored: Names of the tensors that come from the user, which are kept.

    Raises:
        LoweringError: If two numbers of the code are the same in float32, so that it is not known which one is meant.
    """
    numbers = _numbers(graph)
    if not numbers:
        return
    kept = set(stored)
    constants = [value for name, value in model.graph.initializers.items() if name not in kept]
    constants += [output for node in model.graph if node.op_type == "Constant" for output in node.outputs]
    for value in constants:
        _restore(model.graph, value, numbers)


def _numbers(graph: fx.Graph) -> dict[float, set[float]]:
    """All numbers in a graph that float32 cannot hold, and their negatives, by the number that it holds instead."""
    found: dict[float, set[float]] = {}
    for node in graph.nodes:
        for number in _floats((node.args, node.kwargs)):
            with np.errstate(over="ignore"):
                rounded = float(np.float32(number))
            if rounded != number and np.isfinite(number):
                found.setdefault(rounded, set()).add(number)
                found.setdefault(-rounded, set()).add(-number)
    return found


def _floats(argument: object) -> Iterator[float]:
    if isinstance(argument, float):
        yield argument
    elif isinstance(argument, tuple | list):
        yield from itertools.chain.from_iterable(map(_floats, argument))
    elif isinstance(argument, dict):
        yield from _floats(list(argument.values()))


def _restore(graph: ir.Graph, value: ir.Value, numbers: dict[float, set[float]]) -> None:
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or not tensor.size or tensor.dtype not in (ir.DataType.DOUBLE, ir.DataType.FLOAT):
        return
    if tensor.dtype is ir.DataType.DOUBLE:
        precise = _precise(tensor, numbers)
        if precise is not None:
            _set(value, precise)
    elif tensor.dtype is ir.DataType.FLOAT:
        for node in [usage.node for usage in value.uses() if _is_cast_to_double(usage.node)]:
            precise = _precise(tensor, numbers)
            if precise is not None:
                constant = ir.node("Constant", [], attributes={"value": precise})
                constant.outputs[0].type, constant.outputs[0].shape = node.outputs[0].type, node.outputs[0].shape
                constant.outputs[0].name = f"{node.outputs[0].name}/float64"
                graph.insert_before(node, constant)
                ir.convenience.replace_all_uses_with(node.outputs[0], constant.outputs[0])


def _is_cast_to_double(node: ir.Node) -> bool:
    if node.op_type == "CastLike":
        like = node.inputs[1]
        return like is not None and like.dtype is ir.DataType.DOUBLE
    to = node.attributes.get("to") if node.op_type == "Cast" else None
    return to is not None and to.as_int() == ir.DataType.DOUBLE


def _precise(tensor: ir.TensorProtocol, numbers: dict[float, set[float]]) -> ir.TensorProtocol | None:
    array = tensor.numpy()
    first = array.reshape(-1)[0]
    meant = numbers.get(float(first), set()) if (array == first).all() else set()
    if len(meant) > 1:
        raise LoweringError(
            f"The numbers {' and '.join(map(repr, sorted(meant)))} are the same in float32, and cannot be told apart "
            "in the file. Compute in float32, or keep one of them in a float64 tensor."
        )
    return ir.tensor(np.full(array.shape, next(iter(meant)), np.float64)) if meant else None


def _set(value: ir.Value, tensor: ir.TensorProtocol) -> None:
    node = value.producer()
    if node is None:
        tensor.name = value.name
        value.const_value = tensor
    else:
        node.attributes.clear()
        node.attributes["value"] = ir.AttrTensor("value", tensor)
        value.const_value = None
