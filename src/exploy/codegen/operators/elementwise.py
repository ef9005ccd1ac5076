"""Operators that compute each element from the elements of the operands at the same place."""

import numpy as np

from exploy.codegen.c_types import c_type, literal
from exploy.codegen.operation import Operation
from exploy.codegen.operators.registry import writes
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Constant, Value, View, broadcast_shape

_OF_FLOATS = {
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Log": "log",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Tan": "tan",
    "Tanh": "tanh",
}
_OF_LIBRARY = {"Abs": "fabs", "Ceil": "ceil", "Floor": "floor", "Round": "rint", "Sqrt": "sqrt"}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*"}
_WRAPPING = {"Add": "add", "Sub": "subtract", "Mul": "multiply"}
_COMPARISONS = {"Equal": "==", "Greater": ">", "Less": "<", "GreaterOrEqual": ">=", "LessOrEqual": "<="}
_LOGIC = {"And": "&&", "Or": "||", "Xor": "!="}
_BITS = {"BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}
_ROOTS = {0.5: "sqrt({0})", 1.0: "{0}"}


def suffix(value: Value) -> str:
    """The suffix of kernels for the type of a value."""
    return c_type(value.dtype).suffix


def require_floats(operation: Operation, *values: Value) -> None:
    """Refuse values of other types.

    Raises:
        LoweringError: With their types.
    """
    if any(value.dtype.kind != "f" for value in values):
        raise operation.refused("of these types")


@writes(*_OF_FLOATS)
def write_function(step: StepWriter, operation: Operation) -> Value:
    """A function of mathematics, as a kernel."""
    x = operation.input(0)
    require_floats(operation, x)
    function = step.kernel(f"{_OF_FLOATS[operation.op_type]}_{suffix(x)}")
    return step.computed(f"{function}({{0}})", x.dtype, x)


@writes(*_OF_LIBRARY)
def write_library_function(step: StepWriter, operation: Operation) -> Value:
    """A function of the C library that is exact everywhere; integers have kernels where they need one."""
    x = operation.input(0)
    name = _OF_LIBRARY[operation.op_type]
    if x.dtype.kind == "f":
        return step.computed(f"{name}{_f(x)}({{0}})", x.dtype, x)
    if operation.op_type != "Abs":
        raise operation.refused("of this type")
    return x if x.dtype.kind == "u" else step.computed(f"{step.kernel(f'abs_{suffix(x)}')}({{0}})", x.dtype, x)


@writes("Neg")
def write_negation(step: StepWriter, operation: Operation) -> Value:
    """The negative."""
    x = operation.input(0)
    if x.dtype.kind == "f":
        return step.computed("(-{0})", x.dtype, x)
    return step.computed(f"{step.kernel(f'negate_{suffix(x)}')}({{0}})", x.dtype, x)


@writes("Reciprocal")
def write_reciprocal(step: StepWriter, operation: Operation) -> Value:
    """One divided by the element."""
    x = operation.input(0)
    require_floats(operation, x)
    return step.computed(f"({literal(1.0, x.dtype)} / {{0}})", x.dtype, x)


@writes("Not", "BitwiseNot")
def write_not(step: StepWriter, operation: Operation) -> Value:
    """The opposite of a flag, or of all bits."""
    x = operation.input(0)
    if x.dtype == np.bool_:
        return step.computed("(!{0})", np.bool_, x)
    kind = c_type(x.dtype).name
    return step.computed(f"(({kind})(~{{0}}))", x.dtype, x)


@writes("Identity", "Dropout")
def write_identity(step: StepWriter, operation: Operation) -> Value:
    """The same elements."""
    if operation.op_type == "Dropout" and len([name for name in operation.outputs if name]) > 1:
        raise operation.refused("with a mask")
    return operation.input(0)


@writes(*_ARITHMETIC)
def write_arithmetic(step: StepWriter, operation: Operation) -> Value:
    """Sums, differences and products. Integers wrap, as they do in torch."""
    a, b = operation.input(0), operation.input(1)
    if a.dtype.kind == "f":
        return step.computed(f"({{0}} {_ARITHMETIC[operation.op_type]} {{1}})", a.dtype, a, b)
    if a.dtype.kind not in "iu":
        raise operation.refused("of this type")
    function = step.kernel(f"{_WRAPPING[operation.op_type]}_{suffix(a)}")
    return step.computed(f"{function}({{0}}, {{1}})", a.dtype, a, b)


@writes("Div")
def write_division(step: StepWriter, operation: Operation) -> Value:
    """The quotient. That of integers is rounded towards zero; a division by zero sets the status."""
    a, b = operation.input(0), operation.input(1)
    if a.dtype.kind == "f":
        return step.computed("({0} / {1})", a.dtype, a, b)
    function = step.kernel(f"divide_{suffix(a)}")
    return step.computed(f"{function}({{0}}, {{1}}, {step.status})", a.dtype, a, b)


@writes("Mod")
def write_remainder(step: StepWriter, operation: Operation) -> Value:
    """The remainder, with the sign of the divisor, or with `fmod` with that of the dividend."""
    a, b = operation.input(0), operation.input(1)
    if a.dtype.kind == "f":
        function = f"fmod{_f(a)}" if operation.attribute("fmod", 0) else step.kernel(f"floor_mod_{suffix(a)}")
        return step.computed(f"{function}({{0}}, {{1}})", a.dtype, a, b)
    name = "remainder" if operation.attribute("fmod", 0) or a.dtype.kind == "u" else "floor_mod"
    function = step.kernel(f"{name}_{suffix(a)}")
    return step.computed(f"{function}({{0}}, {{1}}, {step.status})", a.dtype, a, b)


@writes("Pow")
def write_power(step: StepWriter, operation: Operation) -> Value:
    """A power. Squares and roots are exact, others are a kernel."""
    a, b = operation.input(0), operation.input(1)
    require_floats(operation, a)
    exponent = b.array.reshape(-1)[0] if isinstance(b, Constant) and b.size == 1 else None
    if exponent == 2:
        return step.computed(f"{step.kernel(f'square_{suffix(a)}')}({{0}})", a.dtype, a)
    if exponent == 1:
        return a
    if b.dtype != a.dtype:
        b = converted(step, b, a.dtype)
    return step.computed(f"{step.kernel(f'pow_{suffix(a)}')}({{0}}, {{1}})", a.dtype, a, b)


@writes(*_COMPARISONS)
def write_comparison(step: StepWriter, operation: Operation) -> Value:
    """A flag for each pair of elements. Of elements and themselves, it only says which of them are NaN."""
    a, b = operation.input(0), operation.input(1)
    if _is_same(a, b):
        with_equal = operation.op_type not in ("Greater", "Less")
        if with_equal and a.dtype.kind == "f":
            return step.computed("(isnan({0}) == 0)", np.bool_, a.broadcast(broadcast_shape(a, b)))
        return Constant(np.full(broadcast_shape(a, b), with_equal))
    return step.computed(f"({{0}} {_COMPARISONS[operation.op_type]} {{1}})", np.bool_, a, b)


@writes(*_LOGIC)
def write_logic(step: StepWriter, operation: Operation) -> Value:
    """Flags of flags."""
    a, b = operation.input(0), operation.input(1)
    if operation.op_type == "Xor" and _is_same(a, b):
        return Constant(np.zeros(broadcast_shape(a, b), np.bool_))
    return step.computed(f"({{0}} {_LOGIC[operation.op_type]} {{1}})", np.bool_, a, b)


@writes(*_BITS)
def write_bits(step: StepWriter, operation: Operation) -> Value:
    """Bits of integers."""
    a, b = operation.input(0), operation.input(1)
    kind = c_type(a.dtype).name
    return step.computed(f"(({kind})({{0}} {_BITS[operation.op_type]} {{1}}))", a.dtype, a, b)


@writes("BitShift")
def write_shift(step: StepWriter, operation: Operation) -> Value:
    """Bits shifted to one side; nothing remains beyond the width."""
    a, b = operation.input(0), operation.input(1)
    if a.dtype.kind != "u":
        raise operation.refused("of this type")
    name = "shift_left" if operation.attribute("direction") == "LEFT" else "shift_right"
    return step.computed(f"{step.kernel(f'{name}_{suffix(a)}')}({{0}}, {{1}})", a.dtype, a, b)


@writes("IsNaN")
def write_is_nan(step: StepWriter, operation: Operation) -> Value:
    """Whether an element is not a number."""
    return step.computed("(isnan({0}) != 0)", np.bool_, operation.input(0))


@writes("IsInf")
def write_is_infinite(step: StepWriter, operation: Operation) -> Value:
    """Whether an element is infinite, of one sign or of both."""
    x = operation.input(0)
    above, below = operation.attribute("detect_positive", 1), operation.attribute("detect_negative", 1)
    if above and below:
        return step.computed("(isinf({0}) != 0)", np.bool_, x)
    if not above and not below:
        return Constant(np.zeros(x.shape, np.bool_))
    end = literal(np.inf if above else -np.inf, x.dtype)
    return step.computed(f"({{0}} == {end})", np.bool_, x)


@writes("Sign")
def write_sign(step: StepWriter, operation: Operation) -> Value:
    """-1, 0 or 1."""
    x = operation.input(0)
    if x.dtype.kind == "u":
        return step.computed(f"(({c_type(x.dtype).name})({{0}} != 0u))", x.dtype, x)
    return step.computed(f"{step.kernel(f'sign_{suffix(x)}')}({{0}})", x.dtype, x)


@writes("Max", "Min")
def write_extreme(step: StepWriter, operation: Operation) -> Value:
    """The largest or smallest of the operands; NaN if one of them is NaN."""
    result = operation.input(0)
    name = "maximum" if operation.op_type == "Max" else "minimum"
    for index in range(1, len(operation.inputs)):
        function = step.kernel(f"{name}_{suffix(result)}")
        result = step.computed(f"{function}({{0}}, {{1}})", result.dtype, result, operation.input(index))
    return result


@writes("Clip")
def write_clip(step: StepWriter, operation: Operation) -> Value:
    """Elements within bounds. NaN stays; the upper bound comes last, as in torch."""
    result = operation.input(0)
    for index, name in ((1, "at_least"), (2, "at_most")):
        bound = operation.optional(index)
        if bound is not None:
            function = step.kernel(f"{name}_{suffix(result)}")
            result = step.computed(f"{function}({{0}}, {{1}})", result.dtype, result, bound)
    return result


@writes("Where")
def write_choice(step: StepWriter, operation: Operation) -> Value:
    """Elements of one operand where a flag is set, and of the other where not."""
    flag, a, b = (operation.input(index) for index in range(3))
    return step.computed("({0} ? {1} : {2})", a.dtype, flag, a, b)


@writes("Cast", "CastLike")
def write_cast(step: StepWriter, operation: Operation) -> Value:
    """Elements as another type."""
    if operation.op_type == "CastLike":
        return converted(step, operation.input(0), operation.input(1).dtype)
    return converted(step, operation.input(0), operation.attribute("to"))


def converted(step: StepWriter, value: Value, dtype: np.dtype) -> Value:
    """Values as another type. Integers wrap; a number that is too large for an integer sets the status."""
    source, target = value.dtype, np.dtype(dtype)
    if source == target:
        return value
    kind = c_type(target)
    if target == np.bool_:
        zero = literal(0, source)
        return step.computed(f"({{0}} != {zero})", np.bool_, value)
    if source.kind == "f" and target.kind in "iu":
        function = step.kernel(f"to_{kind.suffix}_{suffix(value)}")
        return step.computed(f"{function}({{0}}, {step.status})", target, value)
    return step.computed(f"(({kind.name}){{0}})", target, value)


def _is_same(a: Value, b: Value) -> bool:
    """Whether two values are the same elements in memory once they are broadcast; compilers warn of comparing such."""
    if not isinstance(a, View) or not isinstance(b, View) or (a.buffer, a.offset) != (b.buffer, b.offset):
        return False
    shape = broadcast_shape(a, b)
    pairs = zip(shape, a.broadcast(shape).strides, b.broadcast(shape).strides, strict=True)
    return all(size == 1 or mine == theirs for size, mine, theirs in pairs)


def _f(value: Value) -> str:
    return "f" if value.dtype.itemsize == 4 else ""
