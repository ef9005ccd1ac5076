"""Calls of torch operators at corner values: each as users write it, with the values that its arguments take.

The arguments of a case are the inputs of a file. `docs/operators.md` lists what each gives in torch and in the file.
"""
# ruff: noqa: B008, SIM905 - names are words of a text, and functions are parts of tables

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

inf, nan = math.inf, math.nan

FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.3, 2.0, -2.0, 2.5, -3.7, 7.0, 1e-40, -1e-40, 1e-20, -1e-8, 50.0, -50.0, 88.9,
    1e10, -1e10, 2.0**31, -(2.0**31), 2.0**63, 1e37, -1e37, inf, -inf, nan,
]  # fmt: skip
FINITE = [value for value in FLOATS if math.isfinite(value)]
MODERATE = [value for value in FINITE if abs(value) <= 50]
INT64 = [0, 1, -1, 2, -3, 7, 100, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**33 + 5, 2**62, 2**63 - 1, -(2**63)]
INT32 = [0, 1, -1, 2, -3, 7, 100, 2**31 - 1, -(2**31), 65536]
INT16 = [0, 1, -1, 2, -3, 7, 2**15 - 1, -(2**15)]
INT8 = [0, 1, -1, 2, -3, 7, 127, -128]
UINT8 = [0, 1, 2, 3, 7, 127, 128, 255]
BOOLS = [False, True]

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    """A call of an operator: its name, the function, and its arguments."""

    group: str
    name: str
    function: Callable[..., Any]
    arguments: Tensors


def vector(values: list[Any], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of these values."""
    return torch.tensor(values, dtype=dtype)


def pairs(first: list[Any], second: list[Any] | None = None, dtype: torch.dtype = torch.float32) -> Tensors:
    """Two tensors with all pairs of values."""
    second = first if second is None else second
    rows = [(a, b) for a in first for b in second]
    return vector([row[0] for row in rows], dtype), vector([row[1] for row in rows], dtype)


def method(name: str, *args: Any, **options: Any) -> Callable[..., Any]:
    """A function that calls a method of its argument."""
    return lambda x: getattr(x, name)(*args, **options)


def function_of(module: Any, name: str, **options: Any) -> Callable[..., Any]:
    """A function of a module, with options."""
    return lambda *args: getattr(module, name)(*args, **options)


def grid(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values; integers are small."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(-5 if dtype is not torch.uint8 else 0, 6, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def with_corners(*shape: int) -> torch.Tensor:
    """Random values with infinities, NaN and zeros among them."""
    values = grid(*shape, seed=3)
    flat = values.view(-1)
    for index, corner in enumerate((nan, inf, -inf, 0.0, -0.0, 1e18, 1e18)):
        flat[(5 * index + 1) % flat.numel()] = corner
    return values


UNARY = (
    "abs acos acosh angle asin asinh atan atanh bool ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 "
    "floor frac i0 isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not logit "
    "nan_to_num neg positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt "
    "square tan tanh trunc fix clone contiguous detach double float half int long"
).split()
ACTIVATIONS = (
    "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 rrelu selu "
    "sigmoid silu softplus softshrink softsign tanh tanhshrink"
).split()
BINARY = (
    "add sub mul div floor_divide fmod remainder true_divide maximum minimum fmax fmin pow atan2 arctan2 hypot "
    "copysign logaddexp logaddexp2 xlogy heaviside nextafter eq ne lt le gt ge isclose logical_and logical_or "
    "logical_xor ldexp float_power dist"
).split()
INTEGER_UNARY = "abs neg sign sgn logical_not square bitwise_not relu".split()
INTEGER_BINARY = (
    "add sub mul maximum minimum eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor floor_divide remainder fmod"
).split()


def _unary() -> Iterator[Case]:
    for name in UNARY:
        values = MODERATE if name in ("int", "long") else FLOATS
        yield Case("one float", name, method(name), (vector(values),))
    for name in ACTIVATIONS:
        options: dict[str, Any] = {"rrelu": {"training": False}}.get(name, {})
        function = function_of(F, name, **options)
        yield Case("activations", name, function, (vector([*FLOATS, 0.1]),))
    yield Case("activations", "gelu tanh", lambda x: F.gelu(x, approximate="tanh"), (vector(FLOATS),))
    yield Case("activations", "softmax", lambda x: F.softmax(x, -1), (with_corners(6, 5),))
    yield Case("activations", "log_softmax", lambda x: F.log_softmax(x, -1), (with_corners(6, 5),))
    yield Case("activations", "softmin", lambda x: F.softmin(x, -1), (grid(6, 5),))
    yield Case("activations", "normalize", lambda x: F.normalize(x, dim=-1), (with_corners(6, 5),))
    yield Case("activations", "prelu", lambda x: F.prelu(x, torch.tensor([0.2])), (vector(FLOATS),))
    yield Case("activations", "threshold", lambda x: F.threshold(x, 0.1, 20.0), (vector(FLOATS),))


def _binary() -> Iterator[Case]:
    for name in BINARY:
        first, second = pairs(FLOATS)
        if name == "ldexp":
            second = pairs(FLOATS, [0, 1, -1, 5, -20, 100])[1]
            first = pairs(FLOATS, [0, 1, -1, 5, -20, 100])[0]
        yield Case("two floats", name, function_of(torch, name), (first, second))
    for mode in ("floor", "trunc"):
        function = function_of(torch, "div", rounding_mode=mode)
        yield Case("two floats", f"div {mode}", function, pairs(FLOATS))
    yield Case("two floats", "addcmul", lambda a, b: torch.addcmul(a, a, b, value=0.5), pairs(FLOATS))
    yield Case("two floats", "addcdiv", lambda a, b: torch.addcdiv(a, a, b, value=0.5), pairs(FLOATS))
    yield Case("two floats", "lerp", lambda a, b: torch.lerp(a, b, 0.3), pairs(MODERATE))
    yield Case("two floats", "lerp tensor", lambda a, b: torch.lerp(a, b, torch.sigmoid(a)), pairs(MODERATE))
    yield Case("two floats", "where", lambda a, b: torch.where(a > b, a, b), pairs(FLOATS))
    yield Case("two floats", "python %", lambda a, b: a % b, pairs(FLOATS))
    yield Case("two floats", "python //", lambda a, b: a // b, pairs(FLOATS))
    yield Case("two floats", "python **", lambda a, b: a.abs() ** b, pairs(MODERATE))
    for power in (0, 1, 2, 3, -1, 0.5, -0.5, 2.5):
        yield Case("two floats", f"pow {power}", method("__pow__", power), (vector(FLOATS),))
    yield Case("two floats", "python % 2π", lambda x: x % (2 * math.pi), (vector(MODERATE),))
    yield Case("two floats", "remainder of a number", lambda x: torch.remainder(x, 3), (vector(FLOATS),))
    yield Case("two floats", "fmod of a number", lambda x: torch.fmod(x, 3.5), (vector(FLOATS),))
    yield Case("two floats", "number - x", lambda x: 1 - x, (vector(FLOATS),))
    yield Case("two floats", "number / x", lambda x: 1 / x, (vector(FLOATS),))
    yield Case("two floats", "0-d", lambda x, y: x * y + y, (vector(FLOATS), torch.tensor(2.5)))
    yield Case("two floats", "broadcast", lambda x, y: torch.atan2(x, y), (grid(4, 1), grid(1, 5, seed=1)))
    yield Case("two floats", "empty", lambda x, y: torch.maximum(x, y), (torch.zeros(0, 3), torch.zeros(1, 3)))


def _bounds() -> Iterator[Case]:
    x = (vector(FLOATS),)
    yield Case("bounds", "clamp floats", lambda x: torch.clamp(x, -1.5, 2.5), x)
    yield Case("bounds", "clip int and float", lambda x: torch.clip(x, -1, 1.0), x)
    yield Case("bounds", "clip float and int", lambda x: torch.clip(x, -1.5, 1), x)
    yield Case("bounds", "clamp min", lambda x: torch.clamp(x, min=0), x)
    yield Case("bounds", "clamp max", lambda x: torch.clamp(x, max=0.5), x)
    yield Case("bounds", "clamp_min", lambda x: x.clamp_min(0.25), x)
    yield Case("bounds", "clamp_max", lambda x: x.clamp_max(0.25), x)
    yield Case("bounds", "clamp infinite", lambda x: torch.clamp(x, -inf, inf), x)
    yield Case("bounds", "clamp crossed", lambda x: torch.clamp(x, 2.0, -2.0), x)
    yield Case("bounds", "clamp tensors", lambda a, b: torch.clamp(a, -b.abs(), b.abs()), pairs(FINITE))
    yield Case("bounds", "clamp by NaN", lambda a, b: torch.clamp(a, min=b), pairs(FLOATS))
    yield Case("bounds", "clip tensor and none", lambda a, b: torch.clip(a, max=b), pairs(FLOATS))
    for dtype, values in ((torch.int64, INT64), (torch.int32, INT32), (torch.int16, INT16), (torch.uint8, UINT8)):
        name = str(dtype).removeprefix("torch.")
        yield Case("bounds", f"clamp {name}", lambda x: torch.clamp(x, 1, 100), (vector(values, dtype),))
        yield Case("bounds", f"clamp min {name}", lambda x: torch.clamp(x, min=2), (vector(values, dtype),))
        yield Case("bounds", f"clip {name} with floats", lambda x: torch.clip(x, 0.5, 100.0), (vector(values, dtype),))
    large = vector(INT64, torch.int64)
    yield Case("bounds", "clamp int64 at 2**40", lambda x: torch.clamp(x, -(2**40), 2**40), (large,))


def _integers() -> Iterator[Case]:
    kinds = {
        torch.int64: INT64,
        torch.int32: INT32,
        torch.int16: INT16,
        torch.int8: INT8,
        torch.uint8: UINT8,
    }
    for dtype, values in kinds.items():
        kind = str(dtype).removeprefix("torch.")
        for name in INTEGER_UNARY:
            case = method(name)
            yield Case("integers", f"{name} {kind}", case, (vector(values, dtype),))
        for name in INTEGER_BINARY:
            divides = name in ("floor_divide", "remainder", "fmod")  # the processor stops at min / -1 and x / 0
            second = [value for value in values if value not in (0, -1)] if divides else values
            case = function_of(torch, name)
            yield Case("integers", f"{name} {kind}", case, pairs(values, second, dtype))
        for name in ("amax", "amin", "sum", "argmax", "argmin", "cumsum", "prod"):
            options = () if name in ("amax", "amin", "sum", "argmax", "argmin", "prod") else (0,)
            case = method(name, *options)
            yield Case("integers", f"{name} {kind}", case, (vector(values, dtype),))
        yield Case("integers", f"min() {kind}", lambda x: x.min(), (vector(values, dtype),))
        yield Case("integers", f"max(dim) {kind}", lambda x: x.max(dim=-1), (grid(4, 5, dtype=dtype),))
        yield Case("integers", f"min of two {kind}", lambda a, b: torch.min(a, b), pairs(values, None, dtype))
        yield Case("integers", f"sort {kind}", lambda x: torch.sort(x), (vector(values, dtype),))
        yield Case("integers", f"where {kind}", lambda a, b: torch.where(a > b, a, b), pairs(values, None, dtype))
        yield Case("integers", f"float() {kind}", lambda x: x.float() * 0.5, (vector(values, dtype),))
        yield Case("integers", f"true division {kind}", lambda x: x / 4, (vector(values, dtype),))
        yield Case("integers", f"x // 4 {kind}", lambda x: x // 4, (vector(values, dtype),))
        yield Case("integers", f"x % 4 {kind}", lambda x: x % 4, (vector(values, dtype),))
    yield Case("integers", "shifts", lambda x: (x << 2, x >> 1), (vector([0, 1, 5, 1000, -8], torch.int32),))
    for name in ("all", "any", "sum", "amax", "cumsum", "sort", "logical_not", "prod"):
        options = (-1,) if name == "cumsum" else ()
        case = method(name, *options)
        yield Case("flags", name, case, (grid(7, dtype=torch.bool),))
    for name in ("logical_and", "logical_or", "logical_xor", "eq", "ne", "bitwise_and", "mul", "maximum", "add"):
        case = function_of(torch, name)
        yield Case("flags", f"{name} of flags", case, pairs(BOOLS, None, torch.bool))
    yield Case("flags", "~", lambda x: ~x, (grid(7, dtype=torch.bool),))
    yield Case("flags", "&, |, ^", lambda a, b: (a & b, a | b, a ^ b), pairs(BOOLS, None, torch.bool))
    yield Case("flags", "where of flags", lambda a, b: torch.where(a ^ b, a, ~b), pairs(BOOLS, None, torch.bool))
    yield Case("flags", "masked_fill", lambda x: x.masked_fill(x, False), (grid(7, dtype=torch.bool),))
    yield Case("flags", "masked_fill()", lambda x: x.masked_fill(~x, x.any()), (grid(7, dtype=torch.bool),))
    yield Case("flags", "flag * float", lambda x: x * 2.5, (grid(7, dtype=torch.bool),))
    yield Case("flags", "count_nonzero", lambda x: torch.count_nonzero(x), (grid(7, dtype=torch.bool),))


def _reductions() -> Iterator[Case]:
    values, row = with_corners(6, 7), grid(6, 7)
    for name in ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "logsumexp", "nansum", "nanmean"):
        for shown, tensor in (("", row), (" with NaN", values)):
            case = method(name, -1)
            yield Case("reductions", f"{name}(-1){shown}", case, (tensor,))
    for name in ("std", "var", "median", "mode", "norm", "all", "any", "cumsum", "cumprod", "max", "min"):
        case = method(name, dim=-1)
        yield Case("reductions", f"{name}(dim=-1)", case, (row,))
    for name in ("cummax", "cummin", "logcumsumexp", "softmax"):
        yield Case("reductions", name, method(name, dim=-1), (row,))
    for name in ("sum", "mean", "max", "min", "amax", "median", "norm", "std", "var", "any", "all", "argmax"):
        yield Case("reductions", f"{name}()", method(name), (row,))
    yield Case("reductions", "max(dim) with NaN", lambda x: x.max(dim=-1), (values,))
    yield Case("reductions", "min(dim) with NaN", lambda x: x.min(dim=-1), (values,))
    yield Case("reductions", "median with NaN", lambda x: x.median(dim=-1), (values,))
    yield Case("reductions", "cumsum with NaN", lambda x: x.cumsum(-1), (values,))
    yield Case("reductions", "cumprod with NaN", lambda x: x.cumprod(-1), (values,))
    yield Case("reductions", "std unbiased=False", lambda x: x.std(-1, unbiased=False), (row,))
    yield Case("reductions", "var_mean", lambda x: torch.var_mean(x, -1), (row,))
    yield Case("reductions", "norm p=1", lambda x: torch.norm(x, p=1, dim=-1), (row,))
    yield Case("reductions", "norm p=inf", lambda x: torch.linalg.norm(x, inf, dim=-1), (row,))
    yield Case("reductions", "vector_norm", lambda x: torch.linalg.vector_norm(x, dim=-1, keepdim=True), (values,))
    yield Case("reductions", "matrix norm", lambda x: torch.linalg.matrix_norm(x), (row,))
    yield Case("reductions", "quantile", lambda x: torch.quantile(x, 0.3, dim=-1), (row,))
    yield Case("reductions", "aminmax", lambda x: torch.aminmax(x, dim=-1), (row,))
    yield Case("reductions", "sum of two axes", lambda x: x.sum((0, 1)), (row,))
    yield Case("reductions", "sum of nothing", lambda x: x.sum(0), (torch.zeros(0, 3),))
    yield Case("reductions", "diff", lambda x: torch.diff(x, dim=-1), (values,))
    yield Case("reductions", "trapezoid", lambda x: torch.trapezoid(x, dx=0.1), (row,))
    yield Case("reductions", "count_nonzero", lambda x: torch.count_nonzero(x, dim=-1), (values,))


def _order() -> Iterator[Case]:
    row, values = grid(4, 6), with_corners(4, 6)
    yield Case("order", "sort", lambda x: torch.sort(x, dim=-1), (row,))
    yield Case("order", "sort descending", lambda x: torch.sort(x, dim=-1, descending=True), (row,))
    yield Case("order", "sort with NaN", lambda x: torch.sort(x, dim=-1).values, (values,))
    yield Case("order", "sort descending with NaN", lambda x: torch.sort(x, -1, descending=True).values, (values,))
    ties = vector([2, 1, 2, 1, 3, 1]).view(1, 6)
    yield Case("order", "stable sort of ties", lambda x: torch.sort(x, stable=True, dim=-1), (ties,))
    yield Case("order", "argsort", lambda x: torch.argsort(x, dim=-1), (row,))
    yield Case("order", "topk", lambda x: torch.topk(x, 3, dim=-1), (row,))
    yield Case("order", "topk with NaN", lambda x: torch.topk(x, 3, dim=-1).values, (values,))
    yield Case("order", "kthvalue", lambda x: torch.kthvalue(x, 2, dim=-1), (row,))
    edges = torch.tensor([-1.0, 0.0, 0.5, 2.0])
    yield Case("order", "searchsorted", lambda x: torch.searchsorted(edges, x), (row,))
    yield Case("order", "searchsorted right", lambda x: torch.searchsorted(edges, x, right=True), (values,))
    yield Case("order", "searchsorted rows", lambda s, x: torch.searchsorted(s, x), (row.sort(-1).values, grid(4, 2)))
    yield Case("order", "bucketize", lambda x: torch.bucketize(x, edges), (values,))
    yield Case("order", "isin", lambda x: torch.isin(x, torch.tensor([1.0, 2.0])), (ties,))
    yield Case("order", "flip", lambda x: x.flip(-1), (row,))
    yield Case("order", "roll", lambda x: x.roll(2, -1), (row,))


def _shapes() -> Iterator[Case]:
    x = (grid(2, 3, 4),)
    row = (grid(3, 4),)
    calls: dict[str, Callable[..., Any]] = {
        "reshape": lambda x: x.reshape(6, -1),
        "view": lambda x: x.view(-1, 4),
        "flatten": lambda x: x.flatten(1),
        "unflatten": lambda x: x.unflatten(-1, (2, 2)),
        "squeeze": lambda x: x[:, :1].squeeze(1),
        "squeeze of another size": lambda x: x.squeeze(1) + x.squeeze((0, 1)),
        "squeeze of some": lambda x: x[:, None].squeeze((0, 1)),
        "full_like NaN": lambda x: torch.full_like(x, float("nan")),
        "unsqueeze": lambda x: x.unsqueeze(1),
        "permute": lambda x: x.permute(2, 0, 1),
        "transpose": lambda x: x.transpose(0, 2),
        "mT": lambda x: x.mT,
        "movedim": lambda x: x.movedim(0, -1),
        "swapaxes": lambda x: x.swapaxes(0, 1),
        "expand": lambda x: x[:, :1].expand(-1, 5, -1),
        "expand_as": lambda x: x[:1].expand_as(x),
        "repeat": lambda x: x.repeat(2, 1, 2),
        "repeat_interleave": lambda x: x.repeat_interleave(3, dim=1),
        "tile": lambda x: x.tile(2, 1, 1),
        "cat": lambda x: torch.cat([x, x * 2], -1),
        "hstack": lambda x: torch.hstack([x, x]),
        "vstack": lambda x: torch.vstack([x, x]),
        "stack": lambda x: torch.stack([x, -x], 1),
        "chunk": lambda x: x.chunk(2, -1),
        "split": lambda x: x.split([1, 3], -1),
        "tensor_split": lambda x: x.tensor_split(3, -1),
        "unbind": lambda x: x.unbind(1),
        "narrow": lambda x: x.narrow(-1, 1, 2),
        "select": lambda x: x.select(1, 2),
        "slice": lambda x: x[:, 1:, ::2],
        "slice backwards": lambda x: x[..., -3:-1],
        "ellipsis": lambda x: x[..., None, 0],
        "diagonal": lambda x: x.diagonal(dim1=-2, dim2=-1),
        "unfold": lambda x: x.unfold(-1, 2, 1),
        "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
        "swapdims": lambda x: x.swapdims(0, 1),
        "broadcast_to": lambda x: torch.broadcast_to(x[:1], (2, 3, 4)),
        "zeros_like": lambda x: torch.zeros_like(x) + x,
        "ones_like": lambda x: torch.ones_like(x) * x,
        "full_like": lambda x: torch.full_like(x, 2.5) + x,
        "new_zeros": lambda x: x.new_zeros(2, 3, 4) + x,
        "new_full": lambda x: x.new_full((2, 3, 4), 3.0) - x,
        "empty_like filled": lambda x: torch.empty_like(x).fill_(1.5) + x,
        "arange": lambda x: torch.arange(4, dtype=torch.float32) + x,
        "linspace": lambda x: torch.linspace(0, 1, 4) + x,
        "eye": lambda x: torch.eye(4) + x[0, 0],
        "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"),
        "cartesian_prod": lambda x: torch.cartesian_prod(x[0, 0], x[0, 1]),
        "pad": lambda x: F.pad(x, (1, 2), value=3.0),
        "pad replicate": lambda x: F.pad(x, (1, 1), mode="replicate"),
        "pad circular": lambda x: F.pad(x, (1, 1), mode="circular"),
        "pad reflect": lambda x: F.pad(x, (1, 1), mode="reflect"),
        "to float64": lambda x: x.to(torch.float64) * 0.1,
        "type_as": lambda x: x.type_as(torch.zeros(1, dtype=torch.float64)),
    }
    for name, function in calls.items():
        yield Case("shapes", name, function, x)
    calls = {
        "t": lambda x: x.t(),
        "tril": lambda x: x.tril(),
        "triu": lambda x: x.triu(1),
        "diag": lambda x: x[:, :3].diag(),
        "diag_embed": lambda x: torch.diag_embed(x),
        "fliplr": lambda x: x.fliplr(),
        "flipud": lambda x: x.flipud(),
        "trace": lambda x: x[:, :3].trace(),
        "block_diag": lambda x: torch.block_diag(x[:2, :2], x),
        "atleast_3d": lambda x: torch.atleast_3d(x),
        "column_stack": lambda x: torch.column_stack([x, x]),
    }
    for name, function in calls.items():
        yield Case("shapes", name, function, row)


def _indexing() -> Iterator[Case]:
    table, indices = grid(5, 4), torch.tensor([0, 3, -1])
    rows = torch.tensor([[0, 1], [2, 3], [1, 0]])
    calls: dict[str, tuple[Callable[..., Any], Tensors]] = {
        "index by a list": (lambda x: x[:, [2, 0]], (table,)),
        "index by a constant": (lambda x: x[indices], (table,)),
        "index by an input": (lambda x, i: x[i], (table, indices)),
        "index by two": (lambda x, i, j: x[i, j], (table, indices, torch.tensor([1, 2, 0]))),
        "index of a column": (lambda x, i: x[:, i], (table, torch.tensor([1, 3]))),
        "index by int32": (lambda x, i: x[i], (table, indices.int())),
        "index by constant int32": (lambda x: x[:, indices.int()], (table,)),
        "index by a 0-d tensor": (lambda x, i: x[i], (table, torch.tensor(2))),
        "index by a 0-d int32 tensor": (lambda x, i: x[i], (table, torch.tensor(2, dtype=torch.int32))),
        "index_select": (lambda x, i: torch.index_select(x, 0, i), (table, indices.abs())),
        "index_select int32": (lambda x, i: torch.index_select(x, 0, i), (table, indices.abs().int())),
        "gather": (lambda x, i: torch.gather(x, 1, i), (table[:3], rows)),
        "take": (lambda x, i: torch.take(x, i), (table, indices)),
        "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), (table[:3], rows)),
        "scatter": (lambda x, i: torch.scatter(x, 1, i, 9.0), (table[:3], rows)),
        "scatter values": (lambda x, i, v: torch.scatter(x, 1, i, v), (table[:3], rows, grid(3, 2))),
        "scatter_add": (lambda x, i, v: torch.scatter_add(x, 1, i, v), (table[:3], rows, grid(3, 2))),
        "index_add": (lambda x, v: torch.index_add(x, 0, torch.tensor([0, 2, 0]), v), (table, grid(3, 4))),
        "index_copy": (lambda x, v: torch.index_copy(x, 0, torch.tensor([0, 2, 1]), v), (table, grid(3, 4))),
        "index_fill": (lambda x: torch.index_fill(x, 0, torch.tensor([0, 2]), 7.0), (table,)),
        "index_put": (lambda x, v: x.index_put((indices,), v), (table, grid(3, 4))),
        "index_put accumulate": (
            lambda x, v: x.index_put((torch.tensor([1, 1, 0]),), v, accumulate=True),
            (table, grid(3, 4)),
        ),
        "masked_fill": (lambda x: x.masked_fill(x > 0, 5.0), (with_corners(4, 5),)),
        "masked_fill infinite": (lambda x: x.masked_fill(x > 0, -inf), (table,)),
        "masked_scatter": (lambda x: x.masked_scatter(x > 0, -x), (table,)),
        "where number": (lambda x: torch.where(x > 0, x, 0.0), (with_corners(4, 5),)),
        "where of numbers": (lambda x: torch.where(x > 0, 1.0, -1.0), (with_corners(4, 5),)),
        "select_scatter": (lambda x, v: torch.select_scatter(x, v, 0, 1), (table, grid(4))),
        "slice_scatter": (lambda x, v: torch.slice_scatter(x, v, 1, 1, 3), (table, grid(5, 2))),
        "diagonal_scatter": (lambda x, v: torch.diagonal_scatter(x, v), (grid(3, 3), grid(3))),
        "diagonal_scatter(offset=1)": (lambda x, v: torch.diagonal_scatter(x, v, 1), (grid(3, 5), grid(3))),
        "diagonal_scatter(offset=-1)": (lambda x, v: x.diagonal_scatter(v, -1, 2, 1), (grid(2, 3, 4), grid(2, 3))),
        "one_hot": (lambda i: F.one_hot(i, 5), (indices.abs(),)),
        "embedding": (lambda i, x: F.embedding(i, x), (indices.abs(), table)),
        "tril_indices": (lambda x: x[tuple(torch.tril_indices(3, 3))], (table,)),
        "scatter_reduce sum": (lambda x, i, v: x.scatter_reduce(1, i, v, "sum"), (table[:3], rows, grid(3, 2))),
        "scatter_reduce mean": (lambda x, i, v: x.scatter_reduce(1, i, v, "mean"), (table[:3], rows, grid(3, 2))),
        "scatter_reduce amax": (lambda x, i, v: x.scatter_reduce(1, i, v, "amax"), (table[:3], rows, grid(3, 2))),
        "scatter_reduce prod": (lambda x, i, v: x.scatter_reduce(1, i, v, "prod"), (table[:3], rows, grid(3, 2))),
        "scatter_reduce mean of integers": (
            lambda x, i, v: x.scatter_reduce(1, i, v, "mean"),
            (grid(3, 4, dtype=torch.int64), rows, grid(3, 2, seed=4, dtype=torch.int64)),
        ),
        "scatter_reduce mean alone": (
            lambda x, i, v: x.scatter_reduce(1, i, v, "mean", include_self=False),
            (table[:3], torch.tensor([[0, 0], [2, 3], [1, 1]]), grid(3, 2)),
        ),
    }
    for name, (function, arguments) in calls.items():
        yield Case("indexing", name, function, arguments)


def _matrices() -> Iterator[Case]:
    def well_conditioned(count: int, size: int) -> torch.Tensor:
        return grid(count, size, size) + 4 * torch.eye(size)

    def positive(count: int, size: int) -> torch.Tensor:
        root = well_conditioned(count, size)
        return root @ root.mT

    a, b = grid(2, 3, 4), grid(2, 4, 5, seed=1)
    calls: dict[str, tuple[Callable[..., Any], Tensors]] = {
        "matmul": (torch.matmul, (a, b)),
        "matmul broadcast": (torch.matmul, (grid(3, 4), b)),
        "matmul vector": (torch.matmul, (a, grid(4))),
        "dot": (torch.dot, (grid(4), grid(4, seed=1))),
        "mv": (torch.mv, (grid(3, 4), grid(4))),
        "mm": (torch.mm, (grid(3, 4), grid(4, 2))),
        "bmm": (torch.bmm, (a, b)),
        "addmm": (torch.addmm, (grid(3, 2), grid(3, 4), grid(4, 2))),
        "baddbmm": (torch.baddbmm, (grid(2, 3, 5), a, b)),
        "outer": (torch.outer, (grid(3), grid(4))),
        "inner": (torch.inner, (grid(3, 4), grid(2, 4))),
        "kron": (torch.kron, (grid(2, 2), grid(2, 3))),
        "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([2], [1])), (a, b)),
        "einsum": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (a, b)),
        "einsum trace": (lambda a: torch.einsum("bii->b", a), (grid(2, 3, 3),)),
        "einsum three": (lambda a, b: torch.einsum("bi,ij,bj->b", a, b, a), (grid(2, 3), grid(3, 3))),
        "cross": (lambda a, b: torch.cross(a, b, dim=-1), (grid(4, 3), grid(4, 3, seed=1))),
        "linalg.cross": (torch.linalg.cross, (grid(4, 3), grid(4, 3, seed=1))),
        "cdist": (torch.cdist, (a, grid(2, 6, 4, seed=2))),
        "cdist p=1": (lambda a, b: torch.cdist(a, b, p=1.0), (a, grid(2, 6, 4, seed=2))),
        "pairwise_distance": (F.pairwise_distance, (grid(4, 3), grid(4, 3, seed=1))),
        "cosine_similarity": (F.cosine_similarity, (grid(4, 3), grid(4, 3, seed=1))),
        "det 2": (torch.det, (well_conditioned(3, 2),)),
        "det 3": (torch.det, (well_conditioned(3, 3),)),
        "inverse 2": (torch.inverse, (well_conditioned(3, 2),)),
        "inverse 3": (torch.linalg.inv, (well_conditioned(3, 3),)),
        "inverse 6": (torch.linalg.inv, (well_conditioned(2, 6),)),
        "inverse with a zero pivot": (torch.linalg.inv, (torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]),)),
        "solve": (torch.linalg.solve, (well_conditioned(3, 3), grid(3, 3, 2))),
        "solve vector": (torch.linalg.solve, (well_conditioned(1, 4)[0], grid(4))),
        "solve 6": (torch.linalg.solve, (well_conditioned(2, 6), grid(2, 6, 1))),
        "cholesky": (torch.linalg.cholesky, (positive(3, 3),)),
        "cholesky_solve": (
            lambda b, a: torch.cholesky_solve(b, torch.linalg.cholesky(a)),
            (grid(3, 3, 1), positive(3, 3)),
        ),
        "solve_triangular": (
            lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False),
            (well_conditioned(2, 3), grid(2, 3, 2)),
        ),
        "matrix_power": (lambda a: torch.linalg.matrix_power(a, 3), (well_conditioned(2, 3),)),
        "pinv": (torch.linalg.pinv, (well_conditioned(1, 3)[0],)),
        "svd": (torch.linalg.svdvals, (well_conditioned(1, 3)[0],)),
        "eigvalsh": (torch.linalg.eigvalsh, (positive(1, 3)[0],)),
        "qr": (torch.linalg.qr, (well_conditioned(1, 3)[0],)),
        "lstsq": (lambda a, b: torch.linalg.lstsq(a, b).solution, (grid(4, 3), grid(4, 1))),
        "matrix_exp": (torch.matrix_exp, (grid(3, 3),)),
        "multi_dot": (lambda a, b: torch.linalg.multi_dot([a, b, b]), (grid(2, 3), grid(3, 3))),
    }
    for name, (function, arguments) in calls.items():
        yield Case("matrices", name, function, arguments)


def _networks() -> Iterator[Case]:
    torch.manual_seed(0)
    image, sequence = grid(1, 3, 8, 8), grid(1, 3, 10)
    convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
    calls: dict[str, tuple[Callable[..., Any], Tensors]] = {
        "linear": (torch.nn.Linear(4, 3), (grid(2, 4),)),
        "bilinear": (torch.nn.Bilinear(4, 3, 2), (grid(2, 4), grid(2, 3))),
        "conv1d": (torch.nn.Conv1d(3, 4, 3), (sequence,)),
        "conv2d": (convolution, (image,)),
        "conv2d stride, dilation, groups": (torch.nn.Conv2d(3, 6, 3, 2, 2, dilation=2, groups=3), (image,)),
        "conv_transpose2d": (torch.nn.ConvTranspose2d(3, 4, 3, 2), (image,)),
        "max_pool2d": (lambda x: F.max_pool2d(x, 2), (image,)),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (image,)),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), (image,)),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), (image,)),
        "interpolate nearest": (lambda x: F.interpolate(x, scale_factor=2), (image,)),
        "interpolate bilinear": (lambda x: F.interpolate(x, (5, 5), mode="bilinear"), (image,)),
        "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=True), (image, grid(1, 4, 4, 2).tanh())),
        "affine_grid": (lambda t: F.affine_grid(t, [1, 1, 4, 4], align_corners=False), (grid(1, 2, 3),)),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (grid(1, 4, 3, 3),)),
        "layer_norm": (torch.nn.LayerNorm(4), (grid(2, 4),)),
        "group_norm": (torch.nn.GroupNorm(1, 3), (image,)),
        "instance_norm": (torch.nn.InstanceNorm2d(3), (image,)),
        "batch_norm": (torch.nn.BatchNorm1d(4).eval(), (grid(2, 4),)),
        "rms_norm": (torch.nn.RMSNorm(4), (grid(2, 4),)),
        "local_response_norm": (lambda x: F.local_response_norm(x, 2), (image,)),
        "gru cell": (torch.nn.GRUCell(4, 3), (grid(2, 4), grid(2, 3))),
        "lstm cell": (lambda x, cell=torch.nn.LSTMCell(4, 3): cell(x), (grid(2, 4),)),
        "gru": (torch.nn.GRU(4, 3, 2), (grid(5, 2, 4),)),
        "lstm": (torch.nn.LSTM(4, 3), (grid(5, 2, 4),)),
        "rnn": (torch.nn.RNN(4, 3), (grid(5, 2, 4),)),
        "attention": (F.scaled_dot_product_attention, tuple(grid(1, 2, 4, 3, seed=seed) for seed in range(3))),
        "attention causal": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            tuple(grid(1, 2, 4, 3, seed=seed) for seed in range(3)),
        ),
        "multihead attention": (
            lambda x, layer=torch.nn.MultiheadAttention(4, 2, batch_first=True).eval(): layer(x, x, x)[0],
            (grid(1, 5, 4),),
        ),
        "transformer layer": (
            torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(),
            (grid(1, 5, 4),),
        ),
        "dropout": (torch.nn.Dropout().eval(), (grid(2, 4),)),
        "embedding_bag": (torch.nn.EmbeddingBag(5, 3), (torch.tensor([[0, 2, 1]]),)),
        "unfold": (lambda x: F.unfold(x, 3), (image,)),
        "fold": (lambda x: F.fold(x, (4, 4), 2, stride=2), (grid(1, 12, 4),)),
        "mse_loss": (F.mse_loss, (grid(2, 4), grid(2, 4, seed=1))),
        "smooth_l1_loss": (F.smooth_l1_loss, (grid(2, 4), grid(2, 4, seed=1))),
        "cross_entropy": (lambda x: F.cross_entropy(x, torch.tensor([1, 0])), (grid(2, 4),)),
    }
    for name, (function, arguments) in calls.items():
        yield Case("networks", name, function, arguments)


def _in_place() -> Iterator[Case]:
    x, (a, b) = (vector(FLOATS),), pairs(FLOATS)
    calls: dict[str, tuple[Callable[..., Any], Tensors]] = {
        "clamp_ max": (lambda x: x.clone().clamp_(max=0.5), x),
        "clip_ int and float": (lambda x: x.clone().clip_(-1, 1.0), x),
        "clamp out": (lambda x: torch.clamp(x, max=0.5, out=torch.empty_like(x)), x),
        "remainder_": (lambda x: x.clone().remainder_(3), x),
        "%=": (lambda x: x.clone().__imod__(3.0), x),
        "atan2_": (lambda a, b: a.clone().atan2_(b), (a, b)),
        "copysign_": (lambda a, b: a.clone().copysign_(b), (a, b)),
        "sign_": (lambda x: x.clone().sign_(), x),
        "hypot_": (lambda a, b: a.clone().hypot_(b), (a, b)),
        "floor_divide_": (lambda a, b: a.clone().floor_divide_(b), (a, b)),
        "index_put_ by int32": (
            lambda x, i: x.clone().index_put_((i,), torch.tensor(5.0)),
            (grid(5, 2), torch.tensor([0, 3], dtype=torch.int32)),
        ),
        "x[i] = v by int32": (_assign, (grid(5, 2), torch.tensor([0, 3], dtype=torch.int32), grid(2, 2))),
        "slice clamp_": (_clamp_slice, (with_corners(4, 6),)),
        "maximum out": (lambda a, b: torch.maximum(a, b, out=torch.empty_like(a)), pairs(INT64, None, torch.int64)),
        "eps beside a norm": (lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-8), (torch.zeros(2, 3),)),
        "factor near 1": (lambda x: (x * 1.000005 - x) * 1e6, (grid(4) + 1,)),
        "number near 0": (lambda x: (x + 5e-9) * 1e8, (torch.zeros(4),)),
    }
    for name, (function, arguments) in calls.items():
        yield Case("writes", name, function, arguments)


def _assign(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[index] = values
    return x


def _clamp_slice(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 1:3].clamp_(min=0.0)
    return x


def _doubles() -> Iterator[Case]:
    """Operators in float64, as a simulator with a default dtype of float64 calls them."""
    names = (
        "abs acos asin atan ceil cos cosh elu erf exp expm1 floor gelu isnan leaky_relu log log1p neg reciprocal relu "
        "round rsqrt selu sigmoid sign silu sin sinh softplus softsign sqrt tan tanh trunc hardtanh hardswish mish "
        "celu logsigmoid hardsigmoid relu6 softmax"
    ).split()
    for name in names:
        module, options = (F, {"dim": -1} if name == "softmax" else {}) if hasattr(F, name) else (torch, {})
        function = function_of(module, name, **options)
        yield Case("float64", f"{name} float64", function, (vector(MODERATE, torch.float64),))
    for name in ("atan2", "fmod", "remainder", "pow", "maximum", "copysign", "hypot", "floor_divide", "add"):
        function = function_of(torch, name)
        yield Case("float64", f"{name} float64", function, pairs(MODERATE, None, torch.float64))
    for name in ("sum", "mean", "amax", "argmax", "cumsum", "norm", "std", "prod", "logsumexp"):
        function = method(name, dim=-1)
        yield Case("float64", f"{name} float64", function, (grid(3, 4, dtype=torch.float64),))
    double = torch.float64
    yield Case("float64", "clamp float64", lambda x: x.clamp(-1, 1), (vector(FLOATS, double),))
    yield Case("float64", "matmul float64", torch.matmul, (grid(3, 4, dtype=double), grid(4, 2, dtype=double)))
    yield Case("float64", "linear float64", torch.nn.Linear(4, 3).double(), (grid(2, 4, dtype=double),))
    yield Case("float64", "layer_norm float64", torch.nn.LayerNorm(4).double(), (grid(2, 4, dtype=double),))
    yield Case("float64", "lstm float64", torch.nn.LSTM(4, 3).double(), (grid(5, 2, 4, dtype=double),))
    yield Case("float64", "gru float64", torch.nn.GRU(4, 3).double(), (grid(5, 2, 4, dtype=double),))
    yield Case("float64", "conv2d float64", torch.nn.Conv2d(3, 4, 3).double(), (grid(1, 3, 8, 8, dtype=double),))
    yield Case("float64", "where float64", lambda a, b: torch.where(a > b, a, b), pairs(FLOATS, None, double))
    yield Case("float64", "topk float64", lambda x: torch.topk(x, 2), (grid(3, 4, dtype=double),))
    yield Case("float64", "to float32", lambda x: x.float(), (vector(FLOATS, double),))


def cases() -> list[Case]:
    """All calls."""
    groups = (
        _unary, _binary, _bounds, _integers, _reductions, _order, _shapes, _indexing, _matrices, _networks, _in_place,
        _doubles,
    )  # fmt: skip
    return [case for group in groups for case in group()]
