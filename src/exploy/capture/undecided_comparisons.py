"""Runs a program as if each comparison of a changed value had the other result.

Values at some probes cannot show what a comparison gives for all others: `count == 7` is False at nearly all of them. A
value that reaches a comparison could change its result, so it is taken to do so.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def has_comparisons(module: fx.GraphModule) -> bool:
    """Whether the graph of a module compares values."""
    return any(_is_comparison(node) for node in module.graph.nodes)


class Reference(fx.Interpreter):
    """Runs a module and keeps the operands and results of its comparisons.

    Args:
        module: The module; it is not modified.
        buffers: Other values of its buffers, by name.
    """

    def __init__(self, module: fx.GraphModule, buffers: Mapping[str, torch.Tensor] | None = None):
        super().__init__(module)
        self.comparisons: dict[fx.Node, tuple[list[Any], torch.Tensor]] = {}
        self._buffers = buffers or {}

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The buffer of a node, which the run may not write to."""
        value = self._buffers[target] if target in self._buffers else super().get_attr(target, args, kwargs)
        return value.clone() if isinstance(value, torch.Tensor) else value

    def run_node(self, n: fx.Node) -> Any:
        """Run one operation; keep it if it is a comparison."""
        operands = self._operands(n) if _is_comparison(n) else []
        result = super().run_node(n)
        if operands:
            self.comparisons[n] = operands, result.clone()
        return result

    def _operands(self, node: fx.Node) -> list[Any]:
        """The operands of a comparison; copies, because they may be written to later."""
        held = [self.env[item] if isinstance(item, fx.Node) else item for item in node.args]
        return [item.clone() if isinstance(item, torch.Tensor) else item for item in held]


class Flipped(Reference):
    """Runs a module with other buffers, and turns the result of each comparison where an operand has changed.

    Args:
        module: The module.
        buffers: The other values of its buffers, by name.
        reference: The run to compare operands with.
    """

    def __init__(self, module: fx.GraphModule, buffers: Mapping[str, torch.Tensor], reference: Reference):
        super().__init__(module, buffers)
        self._reference = reference

    def run_node(self, n: fx.Node) -> Any:
        """Run one operation; turn its result if it is a comparison."""
        if n not in self._reference.comparisons:
            return super().run_node(n)
        before, result = self._reference.comparisons[n]
        flags = torch.zeros_like(result)
        for one, two in zip(before, self._operands(n), strict=True):
            if isinstance(one, torch.Tensor):
                flags = flags | (one != two)
        return result ^ flags


def _is_comparison(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target._schema.name.removeprefix("aten::") in _COMPARISONS
