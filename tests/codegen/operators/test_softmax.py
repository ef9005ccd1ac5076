"""Probabilities in C."""

import numpy as np

from tests.support.c_cases import Case, assert_as_onnxruntime, refusal

RNG = np.random.default_rng(0)
SHAPES = [(5,), (1, 1), (3, 16), (2, 17), (2, 3, 40), (2, 3, 4, 5)]
NAN, INF = np.nan, np.inf


def cases_of(operator: str, dtype: type) -> list[Case]:
    arrays: list[np.ndarray] = [(4 * RNG.normal(size=shape)).astype(dtype) for shape in SHAPES]
    return [
        Case(operator, (array,), {"axis": axis}) for array in arrays for axis in (*range(array.ndim), -array.ndim)
    ] + [Case(operator, (arrays[-1],))]


def test_any_dimension_becomes_probabilities():
    assert_as_onnxruntime([*cases_of("Softmax", np.float32), *cases_of("LogSoftmax", np.float32)])


def test_doubles_are_computed_as_doubles():
    assert_as_onnxruntime([*cases_of("Softmax", np.float64), *cases_of("LogSoftmax", np.float64)], tolerance=1e-14)


def test_large_scores_do_not_overflow():
    scores = np.array([[1000, 999, -1000], [-1000, -1001, -1002], [3e38, 3e38, -3e38]], np.float32)
    assert_as_onnxruntime([Case("Softmax", (scores,)), Case("LogSoftmax", (scores,))])


def test_nan_and_infinity_pass_as_in_torch():
    rows = np.array([[-INF, 0, 0], [NAN, 0, -INF], [INF, 0, 1], [-INF, -INF, -INF]], np.float32)
    half = np.float32(0.5)
    softmax = np.array([[0, half, half], *[[NAN] * 3] * 3], np.float32)
    logarithms = np.array([[-INF, np.log(half), np.log(half)], *[[NAN] * 3] * 3], np.float32)
    assert_as_onnxruntime(
        [
            Case("Softmax", (rows,), expected=[softmax]),
            Case("LogSoftmax", (rows,), expected=[logarithms]),
            Case("Softmax", (rows.T.copy(),), {"axis": 0}, expected=[softmax.T]),
        ]
    )


def test_other_types_are_refused():
    assert "operator Softmax of these types (of int32[2])" in refusal(Case("Softmax", (np.ones(2, np.int32),)))
