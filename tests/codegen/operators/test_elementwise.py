"""Operators on single elements, as emitted C computes them."""

import functools

import numpy as np
import pytest

from exploy.errors import ContractError, LoweringError
from tests.support.operator_calls import Call, Known, run_call, run_calls

RANDOM = np.random.default_rng(0)
CORNERS = [0.0, -0.0, 0.5, 1.5, -2.5, 3e-39, 1e10, np.inf, -np.inf, np.nan]
X = np.array([*RANDOM.normal(size=14), *CORNERS], np.float32).reshape(4, 6)
Y = X.ravel()[::-1].copy().reshape(4, 6)
ROW, COLUMN = X[:1], np.array([[1.5], [-0.25], [0.0], [2.0]], np.float32)
FINITE = RANDOM.normal(size=(4, 6)).astype(np.float32)
INSIDE = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
INTEGERS = np.array([7, -7, 0, -128, 127, 3], np.int8)
DIVISORS = np.array([2, -3, 5, -1, -1, 4], np.int8)
FLAGS = X > 0
DOUBLES_INSIDE = np.abs(FINITE * 9).astype(np.float64)
DOUBLES = X.astype(np.float64)


def widened(array: np.ndarray, dtype: type) -> np.ndarray:
    """The same with the lowest and the highest number of another type."""
    info = np.iinfo(dtype)
    return np.where(array == -128, info.min, np.where(array == 127, info.max, array)).astype(dtype)


CALLS = [
    *(
        Call(name, [value])
        for name in ("Abs", "Ceil", "Floor", "Round", "Neg", "Reciprocal", "Relu", "Sign", "IsNaN", "Identity")
        for value in (X, DOUBLES)
    ),
    *(Call(name, [value]) for name in ("Exp", "Tanh", "Sigmoid") for value in (X, DOUBLES)),
    *(Call(name, [X]) for name in ("Erf", "Softplus")),
    *(Call(name, [np.abs(value)]) for name in ("Log", "Sqrt") for value in (X, DOUBLES)),
    *(Call(name, [INSIDE]) for name in ("Acos", "Asin", "Atan", "Atanh", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Asinh")),
    Call("Acosh", [1 + np.abs(FINITE)]),
    *(Call(name, [X]) for name in ("Elu", "Selu", "Celu", "LeakyRelu", "Softsign", "ThresholdedRelu", "HardSigmoid")),
    Call("Elu", [X], {"alpha": 0.5}),
    *(Call(name, [FINITE]) for name in ("HardSwish", "Mish", "Gelu", "Gelu")),
    Call("Gelu", [FINITE], {"approximate": "tanh"}, note="tanh"),
    Call("PRelu", [X, COLUMN]),
    *(Call(name, [X, Y]) for name in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")),
    *(Call(name, [X, ROW], note="row") for name in ("Add", "Mul")),
    *(Call(name, [COLUMN, ROW], note="both") for name in ("Sub", "Max")),
    Call("Max", [X, Y, ROW]),
    *(Call("Pow", [np.abs(FINITE), Known(np.array(p, np.float32))], note=str(p)) for p in (2, 0.5, 1, -1, 3)),
    Call("Pow", [FINITE, Known(np.array(3, np.int64))], note="integer"),
    Call("Mod", [FINITE, COLUMN + 3], {"fmod": 1}),
    *(
        Call(name, [widened(INTEGERS, dtype), widened(DIVISORS, dtype)])
        for name in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "BitwiseAnd", "BitwiseXor")
        for dtype in (np.int32, np.int64)
    ),
    Call("Mod", [widened(INTEGERS, np.int32), widened(DIVISORS, np.int32)], {"fmod": 1}, note="fmod"),
    *(Call(name, [widened(INTEGERS, dtype)]) for name in ("Abs", "Neg", "Sign") for dtype in (np.int32, np.int64)),
    *(Call(name, [np.array([1, 200, 255, 7], np.uint8)]) for name in ("Sign", "BitwiseNot")),
    *(Call("BitShift", [np.array([1, 200, 255], np.uint8)] * 2, {"direction": way}) for way in ("LEFT", "RIGHT")),
    *(Call(name, [X, Y]) for name in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")),
    Call("Equal", [widened(INTEGERS, np.int64), widened(DIVISORS, np.int64)]),
    *(Call(name, [FLAGS, ~FLAGS[:1]]) for name in ("And", "Or", "Xor")),
    Call("Not", [FLAGS]),
    *(Call("IsInf", [X], {"detect_positive": a, "detect_negative": b}) for a in (0, 1) for b in (0, 1)),
    *(Call("Clip", [FINITE, low, high]) for low, high in (
        (np.array(-0.5, np.float32), np.array(0.5, np.float32)),
        (None, Known(np.array(0.5, np.float32))),
        (Known(np.array(0.5, np.float32)), None),
    )),
    Call("Clip", [widened(INTEGERS, np.int32), Known(np.array(-5, np.int32)), Known(np.array(5, np.int32))]),
    Call("Where", [FLAGS, X, Y]),
    Call("Where", [FLAGS[:, :1], Known(np.array(np.nan, np.float32)), ROW], note="both"),
    *(
        Call("Cast", [source], {"to": target}, note=f"to-{target}")
        for source in (np.abs(FINITE) * 9, DOUBLES_INSIDE, np.abs(INTEGERS.astype(np.int32)), FLAGS)
        for target in (1, 2, 3, 6, 7, 9, 11)
    ),
    Call("Cast", [X], {"to": 9}, note="nan-is-true"),
    Call("CastLike", [X, INTEGERS > 0]),
]  # fmt: skip


@functools.cache
def results():
    return run_calls(CALLS)


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[str(call) for call in CALLS])
def test_elements_agree_with_onnxruntime(number):
    for ours, theirs in results()[number]:
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=3e-6, atol=1e-6)


def test_extremes_with_nan_are_nan_as_in_torch():
    x, nan = np.array([1, np.nan, np.inf], np.float32), np.full(3, np.nan, np.float32)
    for name in ("Max", "Min"):
        assert np.isnan(run_call(Call(name, [x, nan]))[0]).all() and np.isnan(run_call(Call(name, [nan, x]))[0]).all()
    clipped = run_call(Call("Clip", [x, np.array(-2, np.float32), np.array(2, np.float32)]))[0]
    np.testing.assert_array_equal(clipped, np.array([1, np.nan, 2], np.float32))


def test_bounds_in_the_wrong_order_give_the_upper_one_as_in_torch():
    low, high = np.array(3, np.float32), np.array(-3, np.float32)
    assert (run_call(Call("Clip", [FINITE, low, high]))[0] == -3).all()


def test_integers_that_overflow_wrap_as_in_torch():
    x = np.array([-128, 127], np.int8)
    assert run_call(Call("Neg", [x]))[0].tolist() == [-128, -127]
    assert run_call(Call("Abs", [x]))[0].tolist() == [-128, 127]
    assert run_call(Call("Add", [x, x]))[0].tolist() == [0, -2]
    assert run_call(Call("Div", [x, np.array([-1, -1], np.int8)]))[0].tolist() == [-128, -127]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31) - 257])
def test_a_float_that_no_integer_holds_ends_the_step_with_a_status(value):
    with pytest.raises(ContractError, match="status 2: a number does not fit an integer"):
        run_call(Call("Cast", [np.array([0, value], np.float32)], {"to": 6}))


@pytest.mark.parametrize("value", [2.0**31 - 128, -(2.0**31)])
def test_the_outermost_floats_that_an_integer_holds_are_converted(value):
    assert run_call(Call("Cast", [np.array([value], np.float32)], {"to": 6}))[0][0] == int(value)


@pytest.mark.parametrize("name", ["Div", "Mod"])
def test_an_integer_divided_by_zero_ends_the_step_with_a_status(name):
    with pytest.raises(ContractError, match="status 3: an integer is divided by zero"):
        run_call(Call(name, [np.array([1, 2], np.int32), np.array([1, 0], np.int32)]))


def test_types_without_a_form_are_refused_with_operator_and_types():
    with pytest.raises(LoweringError, match=r"operator Sin of these types \(of int32\[3\]\)"):
        run_call(Call("Sin", [np.zeros(3, np.int32)], {}))
