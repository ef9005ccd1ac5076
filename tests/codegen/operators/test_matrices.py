"""Products of matrices in C: all forms and shapes, as onnxruntime computes them, with the same bits everywhere."""

import numpy as np
import pytest

from tests.support.c_cases import Case, Known, assert_as_onnxruntime, refusal, run_cases
from tests.support.c_programs import FLAGS

RNG = np.random.default_rng(0)
BUILDS = {
    "O0": ("-O0",),
    "O3": ("-O3",),
    "O3 with AVX2 and FMA": ("-O3", "-march=x86-64-v3"),
}


def array(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def test_matrices_and_vectors_are_broadcast_as_in_numpy():
    shapes = [
        ((3,), (3,)),
        ((3,), (3, 5)),
        ((1, 3), (3, 70)),
        ((4, 3), (3,)),
        ((2, 4, 3), (3,)),
        ((3,), (2, 3, 5)),
        ((5, 3), (3, 17)),
        ((2, 4, 3), (3, 5)),
        ((2, 1, 4, 3), (5, 3, 2)),
        ((1, 4, 3), (6, 3, 2)),
        ((2, 3, 1, 7), (2, 3, 7, 33)),
        ((1, 0), (0, 2)),
    ]
    pairs = [(array(*a), array(*b)) for a, b in shapes]
    computed = [Case("MatMul", pair) for pair in pairs]
    known = [Case("MatMul", (a, Known(b))) for a, b in pairs]
    known_first = [Case("MatMul", (Known(a), b)) for a, b in pairs]
    assert_as_onnxruntime([*computed, *known, *known_first])


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_all_numbers_of_columns_are_computed(rows: int):
    columns = [1, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 72, 130]
    x = array(rows, 11)
    known = [Case("MatMul", (x, Known(array(11, count)))) for count in columns]
    computed = [Case("MatMul", (x, array(11, count))) for count in columns]
    assert_as_onnxruntime([*known, *computed])


def test_gemm_transposes_scales_and_adds():
    cases = []
    for rows in (1, 3):
        for transposed_a, transposed_b, known in [
            (0, 0, False),
            (1, 0, True),
            (0, 1, False),
            (0, 1, True),
            (1, 1, True),
        ]:
            a = array(6, rows) if transposed_a else array(rows, 6)
            b = array(9, 6) if transposed_b else array(6, 9)
            form = {"transA": transposed_a, "transB": transposed_b}
            for bias in (None, array(9), array(rows, 9), array(rows, 1), array(1, 9), array(1), np.float32(2)):
                operands = (a, Known(b) if known else b, None if bias is None else np.asarray(bias))
                cases.append(Case("Gemm", operands[: 2 if bias is None else 3], form))
            cases.append(Case("Gemm", (a, b, Known(array(9))), form | {"alpha": 0.5, "beta": 2.0}))
            cases.append(Case("Gemm", (a, b, array(9)), form | {"beta": -1.5}))
            cases.append(Case("Gemm", (a, b, Known(array(9))), form | {"beta": 0.0}))
            cases.append(Case("Gemm", (a, Known(b)), form | {"alpha": 3.0}))
    assert_as_onnxruntime(cases)


def test_doubles_are_computed_as_doubles():
    x = array(4, 20, dtype=np.float64)
    cases = [
        Case("MatMul", (x, Known(array(20, 70, dtype=np.float64)))),
        Case("MatMul", (x[:1], Known(array(20, 70, dtype=np.float64)))),
        Case("Gemm", (x, array(9, 20, dtype=np.float64), array(9, dtype=np.float64)), {"transB": 1}),
    ]
    assert_as_onnxruntime(cases, tolerance=1e-14)


def test_integers_wrap():
    a = np.array([[2**31 - 1, 3], [-5, 7]], np.int32)
    b = np.array([[2, 1, 0], [4, -1, 9]], np.int32)
    wide = np.array([[2**63 - 1, 3]], np.int64)
    cases = [
        Case("MatMul", (a, b)),
        Case("MatMul", (a, Known(b))),
        Case("MatMul", (np.stack([a, a]), b)),
        Case("MatMul", (wide, b[:, :1].astype(np.int64))),
    ]
    assert_as_onnxruntime(cases)


def test_nan_and_infinity_pass_as_arithmetic_says():
    weights = np.array([[0, 1, 0], [1, np.inf, 0], [0, 1, 1]], np.float32)
    x = np.array([[1, 0, 2], [np.inf, 0, 0], [1, np.nan, 0], [0, 1, -np.inf]], np.float32)
    with np.errstate(invalid="ignore"):
        wanted = [row @ weights for row in x]
        cases = [Case("MatMul", (row, Known(weights)), expected=[y]) for row, y in zip(x, wanted, strict=True)]
        cases.append(Case("MatMul", (x, weights), expected=[np.stack(wanted)]))
    assert_as_onnxruntime(cases)


def test_each_build_gives_the_same_bits():
    cases = [
        Case("Gemm", (array(1, 48), Known(array(48, 140)), Known(array(140)))),
        Case("Gemm", (array(7, 48), Known(array(48, 140)), Known(array(140)))),
        Case("MatMul", (array(2, 5, 48), array(2, 48, 21))),
    ]
    results = [run_cases(cases, flags=(*FLAGS, *flags)) for flags in BUILDS.values()]
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            assert mine[0].tobytes() == theirs[0].tobytes()


def test_a_sum_begins_with_the_bias_and_goes_in_the_order_of_the_inputs():
    x, weights, bias = array(1, 300), array(300, 9), array(9)
    wanted = bias.copy()
    for factor, row in zip(x[0], weights, strict=True):
        wanted += factor * row
    alone, among_others = run_cases(
        [
            Case("Gemm", (x, Known(weights), Known(bias))),
            Case("Gemm", (np.repeat(x, 3, 0), weights, bias)),
        ]
    )
    assert alone[0].tobytes() == wanted.tobytes()
    assert among_others[0].tobytes() == 3 * wanted.tobytes()


def test_products_of_flags_and_gemm_of_integers_are_refused():
    integers, flags = np.ones((2, 2), np.int32), np.ones((2, 2), np.bool_)
    assert "operator Gemm of these types (of int32[2, 2], int32[2, 2])" in refusal(Case("Gemm", (integers, integers)))
    assert "operator MatMul of this form (of bool[2, 2], bool[2, 2])" in refusal(Case("MatMul", (flags, flags)))
