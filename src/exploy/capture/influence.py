"""Finds the elements of stored tensors that could have an influence on a result.

Trying other values cannot show what lies behind a choice that is made otherwise just now, such as the other branch of a
`torch.where()`, or behind a factor that is zero. So the graph is followed instead, element by element: each tensor gets
a *trace* of its shape. Operators that move elements move those of the trace; operators that compute element by element
add traces; all others are taken to mix what they get. The gradient of all results then tells which elements reach one.
"""

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_map

from exploy.capture.program import FrozenTensor, Program

_aten = torch.ops.aten
_MOVING = frozenset(
    {
        "cat", "stack", "index", "gather", "index_select", "take_along_dim", "roll", "flip", "clone", "contiguous",
        "repeat", "constant_pad_nd", "slice_scatter", "select_scatter", "as_strided_scatter", "diagonal_scatter",
        "tril", "triu", "tile", "hstack", "vstack", "_to_copy", "reshape", "flatten", "index_put", "index_copy",
        "index_put_", "copy_", "index_copy_", "unfold", "narrow_copy", "repeat_interleave", "concatenate", "to",
        "rot90", "fliplr", "flipud", "block_diag", "diag_embed", "column_stack", "dstack", "meshgrid", "chunk",
        "movedim", "broadcast_tensors",
    }
)  # fmt: skip
_ALONG_A_DIMENSION = frozenset(
    {
        "sum", "mean", "amax", "amin", "prod", "max", "min", "argmax", "argmin", "any", "all", "norm", "std", "var",
        "linalg_vector_norm", "logsumexp", "softmax", "_softmax", "log_softmax", "_log_softmax", "cumsum", "cumprod",
        "linalg_cross", "cross", "sort", "argsort", "topk", "median", "nansum", "cummax", "cummin", "normalize",
    }
)  # fmt: skip
_MULTIPLYING = frozenset({"mul", "mul_", "multiply", "bitwise_and", "logical_and", "__and__"})


class Influence:
    """The elements of the stored tensors of a program that a result could depend on.

    Args:
        program: The program. It is not modified.
        stored: The tensors to ask for; all others, but for inputs and memories, are taken as constants.
        pointers: Those of them that are taken to point to the same elements forever, where they are indices.
    """

    def __init__(self, program: Program, stored: Iterable[FrozenTensor], pointers: Iterable[FrozenTensor] = ()):
        traced = {name for frozen in stored for name in frozen.buffers}
        fixed = {name for frozen in pointers for name in frozen.buffers}
        try:
            self._gradients: dict[str, torch.Tensor] | None = _gradients(program, traced, fixed)
        except Exception:
            self._gradients = None  # an operator that cannot be followed: everything could have an influence

    def elements(self, frozen: FrozenTensor) -> np.ndarray:
        """Flags for the elements of the flattened tensor that a result could depend on."""
        if frozen.is_read_by_python or self._gradients is None:
            return _stored(frozen)
        flags = np.zeros(int(np.prod(frozen.shape)), dtype=bool)
        for name in frozen.buffers:
            gradient = self._gradients.get(name)
            if gradient is None:
                continue
            if tuple(gradient.shape) != frozen.shape:
                return _stored(frozen) if gradient.any() else flags
            flags |= gradient.reshape(-1).numpy()
        reached: np.ndarray = flags & _stored(frozen)
        return reached


def _stored(frozen: FrozenTensor) -> np.ndarray:
    """Flags for the elements that the program stores; ports cover the others."""
    flags = np.ones(int(np.prod(frozen.shape)), dtype=bool)
    if frozen.elements is not None:
        flags[:] = False
        flags[frozen.elements] = True
    return flags


def _gradients(program: Program, traced: set[str], fixed: set[str]) -> dict[str, torch.Tensor]:
    """For each buffer, flags for the elements that reach a result."""
    module = program.module
    arguments = [program.examples[name].clone() for name in program.input_names]
    with torch.enable_grad(), torch.random.fork_rng(devices=()), torch.inference_mode(mode=False):
        torch.manual_seed(0)
        tracer = _Tracer(module, traced, fixed)
        results = tracer.run(*arguments)
        reached = [item.trace.sum() for item in _traced(results) if item.trace.requires_grad]
        leaves = tracer.leaves
        if not reached or not leaves:
            return {}
        total = torch.stack(reached).sum()
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {name: gradient != 0 for name, gradient in zip(leaves, found, strict=True) if gradient is not None}


class _Traced:
    """A tensor and its trace, which shares memory as the tensor does; and whether it is the same forever."""

    __slots__ = ("_is_fixed", "_whole", "trace", "value")

    def __init__(self, value: torch.Tensor, trace: torch.Tensor, is_fixed: bool, view_of: "_Traced | None" = None):
        self.value = value
        self.trace = trace
        self._is_fixed = is_fixed
        self._whole: _Traced = self if view_of is None else view_of._whole

    @property
    def is_fixed(self) -> bool:
        """Whether nothing that varies was written to it, or to the memory that it is a view of."""
        return self._is_fixed and self._whole._is_fixed

    def varies(self) -> None:
        """Note that something that varies was written to it."""
        self._is_fixed = self._whole._is_fixed = False


class _Tracer(fx.Interpreter):
    """Runs a graph on tensors with traces."""

    def __init__(self, module: fx.GraphModule, traced: set[str], fixed: set[str]):
        super().__init__(module)
        self.leaves: dict[str, torch.Tensor] = {}
        self._traced, self._fixed = traced, fixed
        self._buffers: dict[str, _Traced] = {}

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An input or memory: it varies, so that choices that depend on it are open."""
        value = super().placeholder(target, args, kwargs)
        return _Traced(value, _varying(value) * 1.0, is_fixed=False)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A stored tensor; the run works on a copy of it."""
        if target in self._buffers:
            return self._buffers[target]
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach().clone()
        if target in self._traced:
            leaf = self.leaves[target] = _varying(value)
            item = _Traced(value, leaf * 1.0, target in self._fixed)  # views of a leaf cannot be written to
        else:
            item = _Traced(value, torch.zeros(value.shape, dtype=torch.float64), is_fixed=True)
        self._buffers[target] = item
        return item

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Run one operator on values and on traces."""
        if target is operator.getitem:
            return args[0][args[1]]
        operands = _traced((args, kwargs))
        values = tree_map(_value, (args, kwargs))
        traces = _Operator(target, args, kwargs, operands)
        before = traces.prepared()
        result = target(*values[0], **values[1])
        return traces.applied(before, result)


class _Operator:
    """One call of an operator, for the traces of its operands and results."""

    def __init__(self, target: Any, args: Any, kwargs: Any, operands: list[_Traced]):
        self._target, self._args, self._kwargs, self._operands = target, args, kwargs, operands
        self._schema = getattr(target, "_schema", None)
        self._name = "" if self._schema is None else str(self._schema.name).removeprefix("aten::")
        self._plain = self._name.removesuffix("_") if not self._name.startswith("_") else self._name

    def prepared(self) -> Any:
        """What must be known of the operands before the operator runs, which may write to them."""
        if self._plain in _MULTIPLYING or self._plain == "where":
            return [item.value.clone() for item in self._operands]
        return None

    def applied(self, before: Any, result: Any) -> Any:
        """The result of the operator with its trace."""
        written = self._written()
        if written:
            target = written[0]
            target.trace.copy_(self._trace(target.value, before))
            if not self._is_fixed():
                target.varies()
            return tree_map(lambda item: target if isinstance(item, torch.Tensor) else item, result)
        if self._is_view():
            return self._viewed(result)
        if isinstance(result, torch.Tensor):
            return self._traced(result, self._trace(result, before))
        flat, spec = tree_flatten(result)
        if self._name in ("chunk", "split", "split_with_sizes", "unbind", "meshgrid", "broadcast_tensors"):
            return self._viewed(result)
        several = [
            self._traced(item, self._trace(item, before)) if isinstance(item, torch.Tensor) else item for item in flat
        ]
        return torch.utils._pytree.tree_unflatten(several, spec)

    def _traced(self, result: torch.Tensor, trace: torch.Tensor, view_of: _Traced | None = None) -> _Traced:
        return _Traced(result, trace, self._is_fixed(), view_of)

    def _is_fixed(self) -> bool:
        return all(item.is_fixed for item in self._operands)

    def _written(self) -> list[_Traced]:
        if self._schema is None:
            return []
        found = []
        given = zip(self._schema.arguments, self._args, strict=False)
        named = ((item, self._kwargs[item.name]) for item in self._schema.arguments if item.name in self._kwargs)
        for argument, value in (*given, *named):
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, _Traced):
                found.append(value)
        return found

    def _is_view(self) -> bool:
        return self._schema is not None and any(item.alias_info is not None for item in self._schema.returns)

    def _viewed(self, result: Any) -> Any:
        """Results that are views, or may be, of the first operand."""
        flat, spec = tree_flatten(result)
        try:
            held, _ = tree_flatten(self._on_traces())
        except (RuntimeError, TypeError):  # for example a view as another type
            held = flat
        pairs = [
            self._traced(item, trace if self._follows(trace, item) else self._mixed(item), self._operands[0])
            if isinstance(item, torch.Tensor)
            else item
            for item, trace in zip(flat, held, strict=True)
        ]
        return torch.utils._pytree.tree_unflatten(pairs, spec)

    def _follows(self, trace: torch.Tensor, result: torch.Tensor) -> bool:
        """Whether a trace is one of a result, and depends on what the operator got."""
        is_needed = any(item.trace.requires_grad for item in self._operands)
        return trace.shape == result.shape and trace.dtype == torch.float64 and trace.requires_grad == is_needed

    def _on_traces(self) -> Any:
        """The operator applied to the traces; indices and masks keep their values."""
        indices = self._indices()

        def swapped(item: Any) -> Any:
            if not isinstance(item, _Traced):
                return item
            return item.value if any(item is index for index in indices) else item.trace

        args, kwargs = tree_map(swapped, (self._args, {k: v for k, v in self._kwargs.items() if k != "dtype"}))
        if self._name in ("to", "_to_copy", "contiguous", "clone"):
            return self._operands[0].trace.clone()
        if self._plain == "detach":  # the results depend on what is detached, though no gradient would
            return _aten.alias.default(self._operands[0].trace)
        return self._target(*args, **kwargs)

    def _indices(self) -> list[_Traced]:
        """The operands that say where elements go."""
        position = {"index": 1, "index_put": 1, "index_put_": 1, "gather": 2, "take_along_dim": 1, "index_select": 2}
        position |= {"index_copy": 2, "index_copy_": 2, "repeat_interleave": 1}
        if self._name not in position or len(self._args) <= position[self._name]:
            return []
        return _traced(self._args[position[self._name]])

    def _trace(self, result: torch.Tensor, before: Any) -> torch.Tensor:
        """The trace of a result."""
        operands = self._operands
        if not any(item.trace.requires_grad for item in operands):
            return torch.zeros(result.shape, dtype=torch.float64)
        if self._name in _MOVING:
            return self._moved(result)
        if self._plain == "where" and before is not None and len(operands) == 3:
            return self._chosen(result, before)
        if self._is_pointwise():
            return self._added(result, before)
        if self._plain in _ALONG_A_DIMENSION:
            return self._reduced(result)
        return self._mixed(result)

    def _is_pointwise(self) -> bool:
        tags = getattr(self._target, "tags", ())
        return torch.Tag.pointwise in tags or self._plain in ("fill", "zero", "masked_fill", "lerp", "full_like")

    def _moved(self, result: torch.Tensor) -> torch.Tensor:
        indices = self._indices()
        if any(item.trace.requires_grad and not item.is_fixed for item in indices):
            return self._mixed(result)  # with another index, other elements would be there
        try:
            if self._name in ("index_put_", "index_copy_", "copy_"):
                target = self._operands[0].trace
                if self._name == "copy_":
                    trace = self._operands[1].trace.expand_as(target) if len(self._operands) > 1 else target * 0.0
                else:
                    functional = getattr(_aten, self._name.removesuffix("_")).default
                    args = [target, *_swapped(self._args[1:], indices)]
                    trace = functional(*args)
            else:
                trace = self._on_traces()
        except (RuntimeError, TypeError, IndexError):
            return self._mixed(result)
        own = [item.trace.mean() for item in indices if item.trace.requires_grad and item.trace.numel()]
        return trace + torch.stack(own).sum() if own else trace

    def _chosen(self, result: torch.Tensor, before: list[torch.Tensor]) -> torch.Tensor:
        """A choice: of both branches, unless nothing that varies decides it."""
        condition, one, two = self._operands
        if condition.trace.requires_grad:
            return self._added(result, before)
        return torch.where(before[0], one.trace, two.trace).expand(result.shape)

    def _added(self, result: torch.Tensor, before: Any) -> torch.Tensor:
        if self._plain in ("fill", "zero", "full_like") and len(self._operands) == 1:
            return torch.zeros(result.shape, dtype=torch.float64)
        operands = self._operands[1:] if self._plain in ("fill", "full_like") else self._operands
        total = torch.zeros(result.shape, dtype=torch.float64)
        for number, item in enumerate(operands):
            trace = item.trace
            if self._plain in _MULTIPLYING:
                trace = trace * self._factor(number, before)
            total = total + trace
        return total

    def _factor(self, number: int, before: Any) -> Any:
        """Zero where the other factor is a constant zero, else one."""
        others = [value for position, value in enumerate(before) if position != number]
        fixed = [item for position, item in enumerate(self._operands) if position != number]
        numbers = [item for item in self._args if isinstance(item, int | float) and not isinstance(item, bool)]
        if any(item == 0 for item in numbers):
            return 0.0
        factor: Any = 1.0
        for value, item in zip(others, fixed, strict=True):
            if not item.trace.requires_grad:
                factor = factor * (value != 0).double()
        return factor

    def _reduced(self, result: torch.Tensor) -> torch.Tensor:
        """The traces along the dimensions of the operator, added up; all of them if they are not known."""
        (first, *others) = self._operands
        dims = self._dimensions(first.value.dim())
        if dims is None:
            return self._mixed(result)
        summed = first.trace.sum(dims, keepdim=True)
        for item in others:
            summed = summed + item.trace.sum(dims, keepdim=True)
        if summed.dim() == result.dim():
            return summed.expand(result.shape) if _expands(summed, result) else self._mixed(result)
        squeezed = first.trace.sum(dims)
        return squeezed if squeezed.shape == result.shape else self._mixed(result)

    def _dimensions(self, count: int) -> list[int] | None:
        arguments = self._schema.arguments if self._schema is not None else []
        given = {item.name: value for item, value in zip(arguments, self._args, strict=False)} | dict(self._kwargs)
        dims = given.get("dim", -1 if "cross" in self._name or self._name in ("topk", "sort", "argsort") else None)
        if dims is None or not count:
            return None
        listed = dims if isinstance(dims, list | tuple) else [dims]
        return [int(item) % count for item in listed] or None

    def _mixed(self, result: torch.Tensor) -> torch.Tensor:
        """Each element depends on all elements of all operands."""
        parts = [item.trace.mean() for item in self._operands if item.trace.requires_grad and item.trace.numel()]
        if not parts:
            return torch.zeros(result.shape, dtype=torch.float64)
        return torch.stack(parts).sum().expand(result.shape).clone()


def _expands(trace: torch.Tensor, result: torch.Tensor) -> bool:
    return all(one in (1, other) for one, other in zip(trace.shape, result.shape, strict=True))


def _swapped(tree: Any, indices: list[_Traced]) -> Any:
    def swap(item: Any) -> Any:
        if not isinstance(item, _Traced):
            return item
        return item.value if any(item is index for index in indices) else item.trace

    return tree_map(swap, tree)


def _varying(value: torch.Tensor) -> torch.Tensor:
    return torch.ones(value.shape, dtype=torch.float64, requires_grad=True)


def _value(item: Any) -> Any:
    return item.value if isinstance(item, _Traced) else item


def _traced(tree: Any) -> list[_Traced]:
    flat, _ = tree_flatten(tree)
    return [item for item in flat if isinstance(item, _Traced)]
