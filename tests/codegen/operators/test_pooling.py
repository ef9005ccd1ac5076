"""Windows of images, and what is largest in them or their mean, in C."""

from typing import Any

import numpy as np
import pytest

from tests.support.c_cases import Case, assert_as_onnxruntime, refusal

RNG = np.random.default_rng(0)


def array(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


FORMS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), {"kernel_shape": [3]}),
    ((2, 3, 9), {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}),
    ((1, 3, 8, 7), {"kernel_shape": [2, 3], "strides": [2, 1]}),
    ((1, 3, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 3, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 0], "ceil_mode": 1}),
    ((1, 2, 8, 7), {"kernel_shape": [3, 2], "dilations": [2, 3]}),
    ((1, 2, 7, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 7, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 3]}),
]


def test_largest_of_windows():
    assert_as_onnxruntime([Case("MaxPool", (array(*shape),), form) for shape, form in FORMS])


@pytest.mark.parametrize("with_pads", [0, 1])
def test_means_of_windows(with_pads: int):
    cases = [Case("AveragePool", (array(*shape),), form | {"count_include_pad": with_pads}) for shape, form in FORMS]
    assert_as_onnxruntime(cases)


def test_of_whole_images():
    shapes = [(2, 3, 9), (1, 4, 5, 7), (1, 2, 3, 4, 5)]
    operators = ("GlobalMaxPool", "GlobalAveragePool")
    assert_as_onnxruntime([Case(name, (array(*shape),)) for name in operators for shape in shapes])


def test_nan_is_the_largest():
    x = np.array([[[1, np.nan, 2, 3, np.inf, -np.inf]]], np.float32)
    pairs = np.array([[[np.nan, np.nan, 3, np.inf, np.inf]]], np.float32)
    whole = np.full((1, 1, 1), np.nan, np.float32)
    means = np.array([[[np.nan, np.nan, 2.5, np.inf, np.nan]]], np.float32)
    assert_as_onnxruntime(
        [
            Case("MaxPool", (x,), {"kernel_shape": [2]}, expected=[pairs]),
            Case("AveragePool", (x,), {"kernel_shape": [2]}, expected=[means]),
            Case("GlobalMaxPool", (x,), expected=[whole]),
        ]
    )


def test_indices_are_refused():
    case = Case("MaxPool", (array(1, 1, 4),), {"kernel_shape": [2]}, outputs=2)
    assert "operator MaxPool with indices (of float32[1, 1, 4])" in refusal(case)
