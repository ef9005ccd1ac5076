"""Sums, extremes and where they are, as emitted C computes them."""

import functools

import numpy as np
import pytest

from exploy.errors import LoweringError
from tests.support.operator_calls import Call, Known, run_call, run_calls

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 4, 5)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
WITH_NAN = X.copy()
WITH_NAN[1, 2, 3] = np.nan
TIED = np.array([[2, 7, 7, 1], [np.nan, 3, np.nan, 9], [-np.inf, -np.inf, -np.inf, -np.inf]], np.float32)
INTEGERS = RANDOM.integers(-9, 9, (3, 4, 5)).astype(np.int32)
LARGE = np.array([[2**31 - 1, 5], [-(2**31), -7]], np.int32)
FLAGS = X > 0

CALLS = [
    *(
        Call(f"Reduce{name}", [POSITIVE, Known.integers(*axes)], {"keepdims": keep}, note=f"axes={axes}")
        for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
        for axes, keep in (((0,), 1), ((1,), 0), ((-1,), 0), ((0, 2), 0), ((0, 1, 2), 1))
    ),
    *(Call(f"Reduce{name}", [X], {"keepdims": 0}, note="everything") for name in ("Sum", "Mean", "Max", "Min")),
    Call("ReduceSum", [X], {"noop_with_empty_axes": 1}, note="nothing"),
    Call("ReduceSum", [X.astype(np.float64), Known.integers(1)]),
    *(Call(f"Reduce{name}", [INTEGERS, Known.integers(1)]) for name in ("Sum", "Max", "Min", "Prod")),
    Call("ReduceSum", [INTEGERS.astype(np.int64), Known.integers(2)]),
    Call("ReduceSum", [LARGE, Known.integers(0)], note="wraps"),
    *(Call(f"Reduce{name}", [FLAGS, Known.integers(1)], {"keepdims": 0}) for name in ("Max", "Min")),
    *(Call(f"Reduce{name}", [WITH_NAN, Known.integers(2)], note="nan") for name in ("Sum", "Mean", "L2")),
    *(
        Call(f"Arg{name}", [value], {"axis": axis, "keepdims": keep}, note=f"axis={axis}")
        for name in ("Max", "Min")
        for value, axis, keep in ((X, 0, 1), (X, 1, 0), (X, -1, 0), (INTEGERS, 1, 1), (LARGE, 0, 1))
    ),
    Call("ArgMax", [np.full((2, 3), -np.inf, np.float32)], {"axis": 1}, note="-inf"),
    Call("ArgMax", [np.array([[1, 5, 5, 2]], np.float32)], {"axis": 1}, note="tied"),
    *(
        Call("TopK", [X, Known.integers(2)], {"axis": axis, "largest": largest}, 2, note=f"axis={axis}")
        for axis, largest in ((0, 1), (1, 0), (-1, 1))
    ),
    Call("TopK", [INTEGERS.astype(np.int64), Known.integers(3)], {"axis": 1}, 2, note="tied"),
    *(
        Call("CumSum", [value, Known(np.array(axis, np.int64))], {"exclusive": exclusive, "reverse": reverse})
        for value in (X, INTEGERS)
        for axis, exclusive, reverse in ((0, 0, 0), (1, 1, 0), (-1, 0, 1), (1, 1, 1))
    ),
]


@functools.cache
def results():
    return run_calls(CALLS)


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[str(call) for call in CALLS])
def test_reductions_agree_with_onnxruntime(number):
    for ours, theirs in results()[number]:
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 4096), (3, 1000), (2, 5, 1024)])
def test_long_sums_keep_their_digits(shape: tuple[int, ...]) -> None:
    x = RANDOM.uniform(0.5, 1.5, shape).astype(np.float32)
    (found,) = run_call(Call("ReduceSum", [x, Known.integers(-1)], {"keepdims": 0}))
    np.testing.assert_allclose(found, x.sum(-1, dtype=np.float64), rtol=4e-7)


def test_nan_is_the_extreme_of_its_row_as_in_torch():
    (largest,) = run_call(Call("ReduceMax", [TIED, Known.integers(1)]))
    (places,) = run_call(Call("ArgMax", [TIED], {"axis": 1}))
    np.testing.assert_array_equal(largest, np.array([[7], [np.nan], [-np.inf]], np.float32))
    assert places.ravel().tolist() == [1, 0, 0]


def test_nan_comes_first_among_the_largest_and_last_among_the_smallest_as_in_torch():
    values, places = run_call(Call("TopK", [TIED, Known.integers(3)], {"axis": 1}, 2))
    np.testing.assert_array_equal(values[:2], np.array([[7, 7, 2], [np.nan, np.nan, 9]], np.float32))
    assert places[:2].tolist() == [[1, 2, 0], [0, 2, 3]]
    values, places = run_call(Call("TopK", [TIED, Known.integers(3)], {"axis": 1, "largest": 0}, 2))
    np.testing.assert_array_equal(values[:2], np.array([[1, 2, 7], [3, 9, np.nan]], np.float32))
    assert places[:2].tolist() == [[3, 0, 1], [1, 3, 0]]


def test_the_logarithm_of_a_sum_of_exponentials_does_not_overflow():
    x = np.array([[1000, 1000], [-np.inf, -np.inf], [np.inf, 0], [np.nan, 0]], np.float32)
    found = run_call(Call("ReduceLogSumExp", [x, Known.integers(1)], {"keepdims": 0}))[0]
    np.testing.assert_allclose(found, np.array([1000.6931, -np.inf, np.inf, np.nan], np.float32), rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [Call("ReduceL2", [INTEGERS]), Call("ArgMax", [X], {"select_last_index": 1})],
    ids=["root-of-integers", "last-index"],
)
def test_other_forms_are_refused_with_operator_and_types(call):
    with pytest.raises(LoweringError, match=rf"operator {call.op_type} .* \(of {call.operands[0].dtype}"):
        run_call(call)
