"""Computes in float32 what a program computes in bfloat16, and rounds: onnxruntime has no operators for it on a CPU.

Torch does the same on a CPU: its operators compute in float32 and round at the end. A rounding is a conversion to
bfloat16 and back, which onnxruntime has.
"""

import operator
from typing import Any

import torch
from torch import fx

from exploy.capture.recording import WHERE, mutated_arguments, viewed_argument
from exploy.errors import LoweringError
from exploy.live.location import UNKNOWN

_aten = torch.ops.aten
_BFLOAT16 = torch.bfloat16
_LARGEST = torch.finfo(_BFLOAT16).max


def replace_bfloat16(module: fx.GraphModule, examples: tuple[torch.Tensor, ...]) -> None:
    """Rewrite the graph of a module in place.

    Raises:
        LoweringError: If an argument or result is bfloat16, or the bits of bfloat16 values are used.
    """
    if not _has_bfloat16(module):
        return
    coarse = _coarse_nodes(module, examples)
    for node in list(module.graph.nodes):
        ports = [node] if node.op == "placeholder" else node.all_input_nodes if node.op == "output" else []
        if coarse.intersection(ports):
            raise LoweringError(_message(node, "an input or output is bfloat16"))
        if node.op == "get_attr" and node in coarse:
            _store_as_float32(module, node)
        elif node.op == "call_function":
            _rewrite(node, coarse)
    module.graph.lint()
    module.recompile()


def _has_bfloat16(module: fx.GraphModule) -> bool:
    stored = any(item.dtype is _BFLOAT16 for item in (*module.parameters(), *module.buffers()))
    return stored or any(_BFLOAT16 in _plain_arguments(node) for node in module.graph.nodes)


def _plain_arguments(node: fx.Node) -> list[Any]:
    return [*node.args, *node.kwargs.values()]


def _coarse_nodes(module: fx.GraphModule, examples: tuple[torch.Tensor, ...]) -> set[fx.Node]:
    """The nodes whose results are bfloat16."""
    found: set[fx.Node] = set()

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, torch.Tensor) and result.dtype is _BFLOAT16:
                found.add(n)
            return result

    with torch.no_grad():
        Recorder(module).run(*(example.clone() for example in examples))
    return found


def _store_as_float32(module: fx.GraphModule, node: fx.Node) -> None:
    owner, _, name = str(node.target).rpartition(".")
    holder = module.get_submodule(owner)
    value = getattr(holder, name).detach().float()
    delattr(holder, name)
    holder.register_buffer(name, value)


def _rewrite(node: fx.Node, coarse: set[fx.Node]) -> None:
    """Make one operator compute in float32, and round what it returns and writes."""
    viewed = viewed_argument(node.args[0] if node.target is operator.getitem else node)  # type: ignore[arg-type]
    if node.target is _aten.view.dtype and (node in coarse or viewed in coarse):
        raise LoweringError(_message(node, "the bits of bfloat16 values are used"))
    if node.target is _aten.nan_to_num.default and node in coarse:
        nan, above, below = [*node.args[1:], None, None, None][:3]
        node.args = (node.args[0], nan, _LARGEST if above is None else above, -_LARGEST if below is None else below)
    node.args = fx.node.map_aggregate(node.args, _widened)
    node.kwargs = fx.node.map_aggregate(node.kwargs, _widened)
    written = [item for item in mutated_arguments(node) if item in coarse]
    after = node.next
    with node.graph.inserting_before(after):
        for target in written:
            _call(node, _aten.copy_.default, target, _rounded(node, target))
        if written or (viewed is not None and (viewed in coarse) == (node in coarse)):
            return
        if node in coarse:
            result = _rounded(node, node)
            coarse.add(result)
        elif viewed in coarse:
            result = _call(node, _aten.clone.default, node)  # a conversion, which returned a copy
        else:
            return
    node.replace_all_uses_with(result, delete_user_cb=lambda user: user is not node.next)


def _widened(argument: Any) -> Any:
    return torch.float32 if argument is _BFLOAT16 else argument


def _rounded(origin: fx.Node, node: fx.Node) -> fx.Node:
    rounded = _call(origin, _aten._to_copy.default, node, dtype=_BFLOAT16)
    return _call(origin, _aten._to_copy.default, rounded, dtype=torch.float32)


def _call(origin: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """Emit an operator at the line of another one."""
    node = origin.graph.call_function(target, args, kwargs)
    node.meta = {key: value for key, value in origin.meta.items() if key != "val"}
    return node


def _message(node: fx.Node, what: str) -> str:
    return (
        f"{node.meta.get(WHERE, UNKNOWN)}: {what}, which onnxruntime does not support. "
        "Convert the values, for example with .float()."
    )
