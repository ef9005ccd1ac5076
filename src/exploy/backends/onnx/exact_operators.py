"""Rewrites operators whose ONNX form is inexact to operators with an exact form.

Observed with torch 2.13: `atan2(0, -2)` gives -π instead of π, `logsigmoid(-20)` gives -inf, and a broadcasting `copy_`
gives a tensor with the shape of the source.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

Emit = Callable[..., fx.Node]


def replace_inexact_operators(module: fx.GraphModule, examples: tuple[torch.Tensor, ...]) -> None:
    """Rewrite the graph of a module in place, without changing what it computes."""
    graph = module.graph
    if any(node.target in _REWRITES for node in graph.nodes):
        shapes = _shapes(module, examples)
        for node in list(graph.nodes):
            rewrite = _REWRITES.get(node.target)
            if rewrite is not None:
                _apply(graph, node, rewrite, shapes)
        graph.lint()
        module.recompile()


def _apply(graph: fx.Graph, node: fx.Node, rewrite: Any, shapes: dict[fx.Node, torch.Size]) -> None:
    def emit(target: Any, *args: Any) -> fx.Node:
        new = graph.call_function(target, args)
        new.meta.update({key: value for key, value in node.meta.items() if key != "val"})
        return new

    with graph.inserting_before(node):
        replacement = rewrite(emit, shapes, node)
    if replacement is not None:
        node.replace_all_uses_with(replacement)
        graph.erase_node(node)


def _shapes(module: fx.GraphModule, examples: tuple[torch.Tensor, ...]) -> dict[fx.Node, torch.Size]:
    """The shape of every tensor in a graph, measured in one run."""
    shapes: dict[fx.Node, torch.Size] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, node: fx.Node) -> Any:
            result = super().run_node(node)
            if isinstance(result, torch.Tensor):
                shapes[node] = result.shape
            return result

    with torch.no_grad():
        Recorder(module).run(*examples)
    return shapes


def _atan2(emit: Emit, shapes: dict[fx.Node, torch.Size], node: fx.Node) -> fx.Node:
    """Compute atan2 by quadrant, with the sign of zeros taken from their reciprocal."""
    y, x = node.args
    x_is_negative, y_is_negative = _is_negative(emit, x), _is_negative(emit, y)
    angle = emit(aten.atan.default, emit(aten.div.Tensor, y, x))
    angle = emit(aten.where.ScalarSelf, emit(aten.eq.Scalar, y, 0.0), 0.0, angle)
    half_turn = emit(aten.where.Scalar, y_is_negative, -math.pi, math.pi)
    half_turn = emit(aten.to.dtype, half_turn, _float_dtype(node))
    return emit(aten.where.self, x_is_negative, emit(aten.add.Tensor, angle, half_turn), angle)


def _is_negative(emit: Emit, value: Any) -> fx.Node:
    """Whether a number is below zero or is negative zero."""
    below_zero = emit(aten.lt.Scalar, value, 0.0)
    return emit(aten.logical_or.default, below_zero, emit(aten.lt.Scalar, emit(aten.reciprocal.default, value), 0.0))


def _float_dtype(node: fx.Node) -> torch.dtype:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else torch.float32


def _log_sigmoid(emit: Emit, shapes: dict[fx.Node, torch.Size], node: fx.Node) -> fx.Node:
    """Compute min(x, 0) - log(1 + exp(-|x|)), which does not overflow."""
    (x,) = node.args
    tail = emit(aten.exp.default, emit(aten.neg.default, emit(aten.abs.default, x)))
    negative_part = emit(aten.where.ScalarOther, emit(aten.lt.Scalar, x, 0.0), x, 0.0)
    return emit(aten.sub.Tensor, negative_part, emit(aten.log1p.default, tail))


def _copy(emit: Emit, shapes: dict[fx.Node, torch.Size], node: fx.Node) -> fx.Node | None:
    """Expand the source first when a smaller tensor is copied into a larger one."""
    target, source = node.args[:2]
    assert isinstance(target, fx.Node) and isinstance(source, fx.Node)
    if shapes[target] != shapes[source]:
        node.args = (target, emit(aten.expand.default, source, list(shapes[target])), *node.args[2:])
    return None


_REWRITES: dict[Any, Any] = {
    aten.atan2.default: _atan2,
    aten.log_sigmoid.default: _log_sigmoid,
    aten.copy_.default: _copy,
    aten.copy.default: _copy,
}
