"""Operators that only move elements, as emitted C does it."""

import functools

import numpy as np
import pytest

from exploy.errors import LoweringError
from tests.support.operator_calls import Call, Known, run_call, run_calls

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 4, 5)).astype(np.float32)
IMAGE = RANDOM.normal(size=(1, 8, 4, 6)).astype(np.float32)
INTEGERS = RANDOM.integers(-9, 9, (3, 4)).astype(np.int64)
SHAPES = ((12, 5), (-1,), (0, -1), (2, 2, 3, 5), (3, 4, 5, 1))
of = Known.integers

CALLS = [
    *(Call("Reshape", [X, of(*shape)], note=str(shape)) for shape in SHAPES),
    *(Call("Flatten", [X], {"axis": axis}, note=f"axis={axis}") for axis in (0, 1, 2, 3, -1)),
    Call("Squeeze", [X[:1, :, :1], of(0)]),
    Call("Squeeze", [X[:1, :, :1]]),
    Call("Unsqueeze", [X, of(0, -1, 2)]),
    *(Call("Transpose", [X], {"perm": order}, note=str(order)) for order in ([2, 0, 1], [0, 2, 1], [1, 0, 2])),
    Call("Transpose", [X]),
    Call("Slice", [X, of(1), of(3)]),
    Call("Slice", [X, of(-1, 0), of(-100, 100), of(1, 2), of(-1, 2)], note="backwards"),
    Call("Slice", [X, of(3), of(0), of(-1), of(-2)], note="backwards-by-two"),
    Call("Slice", [X, of(2), of(2), of(0)], note="nothing"),
    Call("Slice", [X, of(-7), of(-100), of(0), of(-1)], note="backwards-from-before-the-first"),
    Call("Split", [X, of(1, 3)], {"axis": 1}, 2),
    Call("Split", [X], {"axis": 2, "num_outputs": 3}, 3, note="uneven"),
    *(Call("Concat", [X, X[:, :, :], X], {"axis": axis}, note=f"axis={axis}") for axis in (0, 1, -1)),
    Call("Concat", [X[:, :1], Known(X[:, 1:3]), X], {"axis": 1}, note="with-known"),
    Call("Expand", [X[:, :1], of(2, 1, 4, 5)]),
    Call("Tile", [X, of(2, 1, 3)]),
    Call("Shape", [X]),
    Call("Shape", [X], {"start": 1, "end": -1}),
    Call("Size", [X]),
    Call("Pad", [X, of(0, 1, 2, 0, 0, 1)]),
    Call("Pad", [X, of(1, -1), Known(np.array(7, np.float32)), of(2)], note="cuts"),
    Call("Pad", [X, of(0, 0, 1, 0, 0, 0), np.array(np.inf, np.float32)], note="computed-filling"),
    *(Call("Pad", [X, of(0, 2, 1, 0, 1, 3)], {"mode": mode}, note=mode) for mode in ("edge", "reflect", "wrap")),
    *(Call("Trilu", [X, Known(np.array(k, np.int64))], {"upper": upper}) for k in (-1, 0, 2) for upper in (0, 1)),
    Call("Trilu", [INTEGERS]),
    *(Call("DepthToSpace", [IMAGE], {"blocksize": 2, "mode": mode}, note=mode) for mode in ("DCR", "CRD")),
    Call("SpaceToDepth", [IMAGE], {"blocksize": 2}),
]  # fmt: skip


@functools.cache
def results():
    return run_calls(CALLS)


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[str(call) for call in CALLS])
def test_moved_elements_agree_with_onnxruntime(number):
    for ours, theirs in results()[number]:
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_array_equal(ours, theirs)


def test_a_shape_that_is_computed_is_refused_with_the_operator():
    with pytest.raises(LoweringError, match="operator Reshape whose sizes are computed"):
        run_call(Call("Reshape", [X, np.array([12, 5], np.int64)]))
