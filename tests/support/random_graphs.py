"""Random graphs of the operators that C can be written for, with what onnxruntime computes for them.

Each operator is run by onnxruntime as soon as it is drawn, and dropped if it is not valid or its results are large.
Operators that jump, such as rounding, only get values that all programs compute bit by bit: others could be on another
side of the jump by rounding alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from tests.support.c_programs import OPSET

_SIZES = (1, 1, 2, 2, 3, 4, 5, 7)
_LARGEST = 30.0
_MOST_ELEMENTS = 2000
_SMOOTH = "Exp Tanh Sigmoid Sin Cos Erf Softplus Elu Gelu HardSwish Mish LeakyRelu".split()  # noqa: SIM905
_EXACT = "Neg Abs Relu Identity".split()  # noqa: SIM905
_JUMPING = "Floor Ceil Round Sign".split()  # noqa: SIM905
_REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split()  # noqa: SIM905


class RandomGraph:
    """A graph that grows operator by operator.

    Args:
        seed: Of everything.
        prefix: What all names start with.
    """

    def __init__(self, seed: int, prefix: str = ""):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.outputs: dict[str, np.ndarray] = {}
        self._values: dict[str, np.ndarray] = {}
        self._exact: set[str] = set()
        self._prefix = prefix
        self._count = 0
        for _ in range(self.rng.integers(1, 5)):
            self._add_input()
        for _ in range(int(self.rng.integers(6, 40))):
            self._grow()
        self._add_outputs()

    def model(self) -> onnx.ModelProto:
        """The graph as a model."""
        return joined([self])

    # -- values

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{self._prefix}{kind}{self._count}"

    def _add_input(self) -> None:
        rank = int(self.rng.integers(0, 5))
        shape = tuple(0 if self.rng.random() < 0.02 else int(self.rng.choice(_SIZES)) for _ in range(rank))
        name = self._name("in")
        self.inputs[name] = self._values[name] = self._numbers(shape, self._kind())
        self._exact.add(name)

    def _kind(self) -> str:
        return str(self.rng.choice(["float32"] * 6 + ["float64", "int64", "int32", "bool", "uint8"]))

    def _numbers(self, shape: Sequence[int], dtype: str | np.dtype) -> np.ndarray:
        kind = np.dtype(dtype)
        if kind.kind == "f":
            return self.rng.normal(size=tuple(shape)).astype(kind)
        low, high = (0, 2) if kind.kind == "b" else (0, 9) if kind.kind == "u" else (-9, 10)
        return self.rng.integers(low, high, tuple(shape)).astype(kind)

    def _constant(self, array: Any) -> str:
        name = self._name("constant")
        self.constants[name] = self._values[name] = np.asarray(array)
        self._exact.add(name)
        return name

    def _integers(self, *values: int) -> str:
        return self._constant(np.array(values, np.int64))

    def _some(self, *kinds: str, rank: int = 0, exact: bool = False) -> str:
        """A value of some kinds, preferably one of the last.

        Raises:
            LookupError: If there is none.
        """
        names = [
            name
            for name, array in self._values.items()
            if (not kinds or array.dtype.kind in kinds)
            and array.ndim >= rank
            and (not exact or name in self._exact)
            and (name not in self.constants or self.rng.random() < 0.1)
        ]
        if not names:
            raise LookupError
        return names[-1 - min(len(names) - 1, int(self.rng.exponential(2)))]

    def _matching(self, name: str) -> str:
        """A value of the same type that can be broadcast with another one: a known one, a new constant, or itself."""
        array = self._values[name]
        fitting = [other for other, item in self._values.items() if item.dtype == array.dtype and _fits(item, array)]
        if fitting and self.rng.random() < 0.7:
            return str(self.rng.choice(fitting))
        shape = [size if self.rng.random() < 0.6 else 1 for size in array.shape][int(self.rng.integers(0, 2)) :]
        return self._constant(self._numbers(shape, array.dtype))

    def _given(self, array: np.ndarray) -> str:
        """An array as an input or as a constant."""
        if self.rng.random() < 0.5:
            return self._constant(array)
        name = self._name("in")
        self.inputs[name] = self._values[name] = array
        self._exact.add(name)
        return name

    def _indices(self, shape: Sequence[int], size: int, kind: str) -> str:
        if size == 0:
            raise LookupError
        return self._given(self.rng.integers(-size, size, tuple(shape)).astype(kind))

    # -- operators

    def _grow(self) -> None:
        draw = _DRAWS[int(self.rng.integers(len(_DRAWS)))]
        known = set(self.constants)
        try:
            operator, operands, attributes, count, keeps_bits = draw(self)
        except (LookupError, ValueError):
            return
        names = [self._name("v") for _ in range(count)]
        node = helper.make_node(operator, operands, names, name=names[0], **attributes)
        found = _run([node], {name: self._values[name] for name in operands if name}, names)
        if found is None or any(not _usable(array) for array in found):
            for name in set(self.constants) - known:
                del self.constants[name], self._values[name]
            return
        self.nodes.append(node)
        self._values |= dict(zip(names, found, strict=True))
        if keeps_bits and all(name in self._exact for name in operands if name):
            self._exact.update(names)

    def _add_outputs(self) -> None:
        names = list(self._values)
        chosen = [names[-1], *self.rng.choice(names, int(self.rng.integers(1, 5)))]
        for name in chosen:
            output = self._name("out")
            self.nodes.append(helper.make_node("Identity", [str(name)], [output], name=output))
            self.outputs[output] = self._values[str(name)]


Drawn = tuple[str, list[str], dict[str, Any], int, bool]


def _elementwise(graph: RandomGraph) -> Drawn:
    if graph.rng.random() < 0.5:
        return str(graph.rng.choice(_SMOOTH)), [graph._some("f")], {}, 1, False
    if graph.rng.random() < 0.3:
        return str(graph.rng.choice(_JUMPING)), [graph._some("f", exact=True)], {}, 1, True
    return str(graph.rng.choice(_EXACT)), [graph._some("f", "i")], {}, 1, True


def _arithmetic(graph: RandomGraph) -> Drawn:
    operator = str(graph.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Div", "Mod"]))
    a = graph._some("f", "i", exact=operator in ("Div", "Mod"))
    b = graph._matching(a)
    if operator in ("Div", "Mod"):
        shape = graph._values[b].shape
        b = graph._constant(1 + np.abs(graph._numbers(shape, graph._values[a].dtype)))
    attributes = {"fmod": 1} if operator == "Mod" and graph._values[a].dtype.kind == "f" else {}
    operands = [a, b] if graph.rng.random() < 0.5 or operator in ("Div", "Mod") else [b, a]
    return operator, operands, attributes, 1, True


def _flags(graph: RandomGraph) -> Drawn:
    if graph.rng.random() < 0.5:
        a = graph._some("f", "i", exact=True)
        b = graph._matching(a)
        if b not in graph._exact:
            raise LookupError
        return str(graph.rng.choice(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"])), [a, b], {}, 1, True
    a = graph._some("b")
    operator = str(graph.rng.choice(["And", "Or", "Xor", "Not"]))
    return operator, [a] if operator == "Not" else [a, graph._matching(a)], {}, 1, True


def _choice(graph: RandomGraph) -> Drawn:
    flag, a = graph._some("b"), graph._some("f", "i")
    return "Where", [flag, a, graph._matching(a)], {}, 1, True


def _cast(graph: RandomGraph) -> Drawn:
    a = graph._some(exact=True)
    target = graph._kind()
    if np.dtype(target).kind == "u" and graph._values[a].min(initial=0) < 0:
        raise LookupError
    return "Cast", [a], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(target))}, 1, True


def _clip(graph: RandomGraph) -> Drawn:
    a = graph._some("f", "i")
    dtype = graph._values[a].dtype
    bounds = [graph._constant(np.array(value, dtype)) if graph.rng.random() < 0.8 else "" for value in (-1, 1)]
    return "Clip", [a, *bounds], {}, 1, True


def _reshape(graph: RandomGraph) -> Drawn:
    a = graph._some()
    left, sizes = graph._values[a].size, list[int]()
    while left > 1 and len(sizes) < 4:
        divisors = [number for number in range(1, left + 1) if left % number == 0]
        sizes.append(int(graph.rng.choice(divisors)))
        left //= sizes[-1]
    sizes.append(-1 if graph._values[a].size else 0)
    return "Reshape", [a, graph._integers(*(int(size) for size in graph.rng.permutation(sizes)))], {}, 1, True


def _ranks(graph: RandomGraph) -> Drawn:
    a = graph._some()
    array = graph._values[a]
    ones = [axis for axis, size in enumerate(array.shape) if size == 1]
    if ones and graph.rng.random() < 0.5:
        return "Squeeze", [a, graph._integers(*ones[: int(graph.rng.integers(1, len(ones) + 1))])], {}, 1, True
    if graph.rng.random() < 0.3:
        return "Flatten", [a], {"axis": int(graph.rng.integers(0, array.ndim + 1))}, 1, True
    return "Unsqueeze", [a, graph._integers(int(graph.rng.integers(0, array.ndim + 1)))], {}, 1, True


def _transpose(graph: RandomGraph) -> Drawn:
    a = graph._some(rank=2)
    return "Transpose", [a], {"perm": graph.rng.permutation(graph._values[a].ndim).tolist()}, 1, True


def _slice(graph: RandomGraph) -> Drawn:
    a = graph._some(rank=1)
    array = graph._values[a]
    axes = graph.rng.permutation(array.ndim)[: int(graph.rng.integers(1, array.ndim + 1))].tolist()
    steps = [int(graph.rng.choice([1, 1, 2, 3, -1, -1, -2])) for _ in axes]
    far = int(np.iinfo(np.int64).max)
    first = [int(graph.rng.choice([0, 1, -1, -2, 2, 100] if step > 0 else [-1, -2, 3, 100])) for step in steps]
    stop = [int(graph.rng.choice([far, -1, 2, 3] if step > 0 else [-far, 0, -100])) for step in steps]
    return "Slice", [a, *(graph._integers(*numbers) for numbers in (first, stop, axes, steps))], {}, 1, True


def _split(graph: RandomGraph) -> Drawn:
    a = graph._some(rank=1)
    axis = int(graph.rng.integers(graph._values[a].ndim))
    size = graph._values[a].shape[axis]
    if size < 2:
        raise LookupError
    first = int(graph.rng.integers(0, size + 1))
    return "Split", [a, graph._integers(first, size - first)], {"axis": axis}, 2, True


def _concat(graph: RandomGraph) -> Drawn:
    a = graph._some(rank=1)
    axis = int(graph.rng.integers(graph._values[a].ndim))
    shape = list(graph._values[a].shape)
    shape[axis] = int(graph.rng.integers(0, 3))
    others = [graph._constant(graph._numbers(shape, graph._values[a].dtype))] + [a] * int(graph.rng.integers(0, 2))
    return "Concat", [a, *others][:: int(graph.rng.choice([-1, 1]))], {"axis": axis}, 1, True


def _repeated(graph: RandomGraph) -> Drawn:
    a = graph._some()
    shape = graph._values[a].shape
    if graph.rng.random() < 0.5:
        if not shape:
            raise LookupError
        return "Tile", [a, graph._integers(*(int(graph.rng.choice([1, 1, 2, 3])) for _ in shape))], {}, 1, True
    wanted = [int(graph.rng.choice([2, 3])) if size == 1 else size for size in shape]
    return "Expand", [a, graph._integers(*([2] if graph.rng.random() < 0.3 else []), *wanted)], {}, 1, True


def _pad(graph: RandomGraph) -> Drawn:
    a = graph._some("f", "i", rank=1)
    mode = str(graph.rng.choice(["constant", "constant", "edge", "reflect", "wrap"]))
    low = -1 if mode == "constant" else 0
    pads = graph.rng.integers(low, 3, 2 * graph._values[a].ndim).tolist()
    return "Pad", [a, graph._integers(*pads)], {"mode": mode}, 1, True


def _gather(graph: RandomGraph) -> Drawn:
    a = graph._some(rank=1)
    axis = int(graph.rng.integers(graph._values[a].ndim))
    size = graph._values[a].shape[axis]
    kind = str(graph.rng.choice(["int64", "int32"]))
    asked = [int(graph.rng.choice(_SIZES)) for _ in range(int(graph.rng.integers(0, 3)))]
    if graph.rng.random() < 0.4:
        asked = [min(part, other) for part, other in zip(graph._values[a].shape, [9] * 9, strict=False)]
        asked[axis] = 2
        indices = graph._indices(asked, size, kind)
        return "GatherElements", [a, indices], {"axis": axis}, 1, True
    return "Gather", [a, graph._indices(asked, size, kind)], {"axis": axis}, 1, True


def _gather_nd(graph: RandomGraph) -> Drawn:
    a = graph._some(rank=1)
    shape = graph._values[a].shape
    depth = int(graph.rng.integers(1, len(shape) + 1))
    rows = int(graph.rng.integers(1, 4))
    columns = [graph.rng.integers(-size, size, rows) for size in shape[:depth]]
    return "GatherND", [a, graph._given(np.stack(columns, -1).astype(np.int64))], {}, 1, True


def _scatter(graph: RandomGraph) -> Drawn:
    a = graph._some("f", "i", rank=1)
    array = graph._values[a]
    reduction = {"reduction": str(graph.rng.choice(["none", "add", "max"]))}
    if graph.rng.random() < 0.5:
        depth = int(graph.rng.integers(1, array.ndim + 1))
        place = [graph.rng.permutation(size)[:1] for size in array.shape[:depth]]
        updates = graph._given(graph._numbers((1, *array.shape[depth:]), array.dtype))
        return "ScatterND", [a, graph._given(np.stack(place, -1).astype(np.int64)), updates], reduction, 1, True
    axis = int(graph.rng.integers(array.ndim))
    shape = [*array.shape[:axis], 1, *array.shape[axis + 1 :]]
    indices = graph._indices(shape, array.shape[axis], "int64")
    updates = graph._given(graph._numbers(shape, array.dtype))
    return "ScatterElements", [a, indices, updates], {"axis": axis} | reduction, 1, True


def _reduction(graph: RandomGraph) -> Drawn:
    a = graph._some("f", rank=1)
    ndim = graph._values[a].ndim
    axes = sorted(graph.rng.permutation(ndim)[: int(graph.rng.integers(0, ndim + 1))].tolist())
    operands = [a, graph._integers(*axes)] if axes or graph.rng.random() < 0.5 else [a]
    attributes = {"keepdims": int(graph.rng.integers(2)), "noop_with_empty_axes": int(graph.rng.integers(2))}
    operator = str(graph.rng.choice(_REDUCTIONS))
    return operator, operands, attributes, 1, operator in ("ReduceMax", "ReduceMin")


def _order(graph: RandomGraph) -> Drawn:
    a = graph._some("f", "i", rank=1, exact=True)
    axis = int(graph.rng.integers(graph._values[a].ndim))
    if graph.rng.random() < 0.4:
        operator = str(graph.rng.choice(["ArgMax", "ArgMin"]))
        return operator, [a], {"axis": axis, "keepdims": int(graph.rng.integers(2))}, 1, True
    if graph.rng.random() < 0.4:
        attributes = {"exclusive": int(graph.rng.integers(2)), "reverse": int(graph.rng.integers(2))}
        return "CumSum", [a, graph._constant(np.array(axis, np.int64))], attributes, 1, False
    count = int(graph.rng.integers(0, graph._values[a].shape[axis] + 1))
    return "TopK", [a, graph._integers(count)], {"axis": axis, "largest": int(graph.rng.integers(2))}, 2, True


def _product(graph: RandomGraph) -> Drawn:
    a = graph._some("f", rank=1)
    shape, dtype = graph._values[a].shape, graph._values[a].dtype
    wanted = [shape[-1], int(graph.rng.choice(_SIZES))] if graph.rng.random() < 0.8 else [shape[-1]]
    if len(shape) == 2 and graph.rng.random() < 0.4:
        transposed = int(graph.rng.integers(2))
        b = graph._given(graph._numbers([shape[1], 3][:: -1 if transposed else 1], dtype))
        of_bias = [(), (3,), (1, 1), (shape[0], 1), (shape[0], 3)][int(graph.rng.integers(5))]
        bias = graph._given(graph._numbers(of_bias, dtype))
        alpha, beta = (float(graph.rng.choice([1.0, other])) for other in (0.5, 2.0))
        attributes = {"transB": transposed, "alpha": alpha, "beta": beta}
        return "Gemm", [a, b, bias], attributes, 1, False
    if len(wanted) == 2 and graph.rng.random() < 0.4:
        wanted = [*(1 if graph.rng.random() < 0.3 else size for size in shape[:-2]), *wanted]
    return "MatMul", [a, graph._given(graph._numbers(wanted, dtype))], {}, 1, False


def _normal(graph: RandomGraph) -> Drawn:
    a = graph._some("f", rank=1)
    shape, dtype = graph._values[a].shape, graph._values[a].dtype
    axis = int(graph.rng.integers(-len(shape), len(shape)))
    if graph.rng.random() < 0.6:
        return str(graph.rng.choice(["Softmax", "LogSoftmax"])), [a], {"axis": axis}, 1, False
    scale = graph._given(graph._numbers(shape[axis:], dtype))
    return "LayerNormalization", [a, scale], {"axis": axis, "epsilon": 1e-2}, 1, False


def _triangle(graph: RandomGraph) -> Drawn:
    a = graph._some("f", "i", rank=2)
    offset = graph._constant(np.array(int(graph.rng.integers(-2, 3)), np.int64))
    return "Trilu", [a, offset], {"upper": int(graph.rng.integers(2))}, 1, True


def _one_hot(graph: RandomGraph) -> Drawn:
    a = graph._some("i")
    ends = graph._constant(np.array([-1.0, 2.0], np.float32))
    return "OneHot", [a, graph._integers(4), ends], {"axis": int(graph.rng.choice([-1, 0]))}, 1, True


_DRAWS: Sequence[Callable[[RandomGraph], Drawn]] = (
    *[_elementwise, _arithmetic] * 3,
    *[_flags, _choice, _cast, _clip],
    *[_reshape, _ranks, _transpose, _slice] * 2,
    *[_split, _concat, _repeated, _pad, _gather, _gather_nd, _scatter],
    *[_reduction, _order, _product, _normal] * 2,
    *[_triangle, _one_hot],
)


def joined(graphs: Sequence[RandomGraph]) -> onnx.ModelProto:
    """Several graphs, whose names differ, as one model."""
    return _model(
        [node for graph in graphs for node in graph.nodes],
        {name: array for graph in graphs for name, array in graph.inputs.items()},
        {name: array for graph in graphs for name, array in graph.constants.items()},
        {name: array for graph in graphs for name, array in graph.outputs.items()},
    )


def _model(nodes: Sequence[onnx.NodeProto], inputs: Any, constants: Any, outputs: Any) -> onnx.ModelProto:
    given, got = ([_info(name, array) for name, array in arrays.items()] for arrays in (inputs, outputs))
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "random", given, got, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def _info(name: str, array: np.ndarray | None) -> onnx.ValueInfoProto:
    if array is None:
        return onnx.ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _run(
    nodes: Sequence[onnx.NodeProto], values: dict[str, np.ndarray], outputs: Sequence[str]
) -> list[np.ndarray] | None:
    """What onnxruntime computes; None if it cannot."""
    model = _model(nodes, {}, values, dict.fromkeys(outputs))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(array) for array in session.run(list(outputs), {})]
    except Exception:  # the operator does not take these values
        return None


def _usable(array: np.ndarray) -> bool:
    if array.size > _MOST_ELEMENTS or array.ndim > 6:
        return False
    return array.dtype.kind == "b" or bool((np.abs(array.astype(np.float64)) <= _LARGEST).all())


def _fits(one: np.ndarray, other: np.ndarray) -> bool:
    try:
        np.broadcast_shapes(one.shape, other.shape)
    except ValueError:
        return False
    return True
