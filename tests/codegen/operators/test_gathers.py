"""Elements read and written at indices, as emitted C does it."""

import functools

import numpy as np
import pytest

from exploy.errors import ContractError, LoweringError
from tests.support.operator_calls import Call, Known, run_call, run_calls

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(4, 3, 5)).astype(np.float32)
INTEGERS = RANDOM.integers(-9, 9, (4, 3, 5)).astype(np.int32)
ROWS = np.array([[3, -1], [0, -4]], np.int64)
PLACES = RANDOM.integers(-3, 3, (4, 3, 5))
TUPLES = np.array([[0, 1], [-1, -3], [2, 0]], np.int64)
MORE = RANDOM.normal(size=(3, 5)).astype(np.float32)
UPDATES = RANDOM.normal(size=(4, 3, 5)).astype(np.float32)
UNIQUE = np.argsort(RANDOM.normal(size=(4, 3, 5)), axis=1)

CALLS = [
    *(Call("Gather", [X, ROWS % 3], {"axis": axis}, note=f"axis={axis}") for axis in (0, 1, -1)),
    Call("Gather", [X, ROWS], note="negative"),
    Call("Gather", [X, np.array(2, np.int32)], note="scalar"),
    Call("Gather", [Known(X), ROWS], note="table"),
    *(
        Call("Gather", [X, Known(np.array(indices, np.int64))], {"axis": 2}, note=f"known={indices}")
        for indices in (3, -2, [1], [0, 1, 2], [4, 2, 0], [-1, -2, -3, -4, -5], [0, 0, 1], [[0, 4], [3, 1]])
    ),
    *(Call("GatherElements", [X, PLACES], {"axis": axis}, note=f"axis={axis}") for axis in (0, 1, 2)),
    Call("GatherElements", [X, PLACES[:2, :1, :3]], {"axis": 1}, note="fewer"),
    Call("GatherND", [X, TUPLES]),
    Call("GatherND", [X, np.array([[0, 1, 2], [3, -1, -5]], np.int64)], note="whole"),
    Call("GatherND", [X, np.array([[[0], [1]]] * 4, np.int64)], {"batch_dims": 1}, note="batch"),
    Call("ScatterND", [X, TUPLES, MORE]),
    Call("ScatterND", [INTEGERS, np.array([[[1], [0]]], np.int64), INTEGERS[None, 2:]]),
    Call("ScatterND", [X, np.array([[0, 1, 2], [3, -1, -5]], np.int64), np.array([7, 8], np.float32)], note="whole"),
    *(
        Call("ScatterND", [X, np.array([[1], [1]], np.int64), UPDATES[:2]], {"reduction": name}, note=name)
        for name in ("add", "mul", "max", "min")
    ),
    *(Call("ScatterElements", [X, UNIQUE, UPDATES], {"axis": axis}, note=f"axis={axis}") for axis in (1,)),
    Call("ScatterElements", [X, UNIQUE[:1, :, :2], UPDATES[:1, :, :2]], {"axis": 1}, note="fewer"),
    *(
        Call("ScatterElements", [X, PLACES, UPDATES], {"axis": 1, "reduction": name}, note=name)
        for name in ("add", "mul", "max", "min")
    ),
    Call("ScatterElements", [INTEGERS, PLACES, INTEGERS], {"axis": 0, "reduction": "add"}, note="add"),
    *(
        Call(
            "OneHot",
            [ROWS, Known(np.array(5, np.int64)), np.array([0.5, 2], np.float32)],
            {"axis": axis},
            note=f"axis={axis}",
        )
        for axis in (-1, 0, 1)
    ),
    Call("OneHot", [np.array([-6, 7, 2], np.int64), Known(np.array(5, np.int64)), Known(np.array([0, 1], np.int64))]),
]


@functools.cache
def results():
    return run_calls(CALLS)


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[str(call) for call in CALLS])
def test_elements_at_indices_agree_with_onnxruntime(number):
    for ours, theirs in results()[number]:
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "call",
    [
        Call("Gather", [X, np.array([0, 4], np.int64)]),
        Call("Gather", [X, np.array([-5], np.int64)]),
        Call("Gather", [X, np.array([2**40], np.int64)]),
        Call("GatherElements", [X, np.full((1, 1, 1), 3, np.int64)], {"axis": 1}),
        Call("GatherND", [X, np.array([[0, 3]], np.int64)]),
        Call("ScatterND", [X, np.array([[4]], np.int64), X[:1]]),
        Call("ScatterElements", [X, np.full((1, 1, 1), -6, np.int64), X[:1, :1, :1]], {"axis": 2}),
    ],
    ids=str,
)
def test_an_index_outside_ends_the_step_with_a_status(call):
    with pytest.raises(ContractError, match="status 1: an index is outside of its table"):
        run_call(call)


def test_a_known_index_outside_is_refused():
    with pytest.raises(LoweringError, match=r"Gather whose indices \[9\] are outside of its 4 elements"):
        run_call(Call("Gather", [X, Known.integers(9)]))
