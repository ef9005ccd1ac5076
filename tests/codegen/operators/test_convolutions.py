"""Convolutions in C."""

from typing import Any

import numpy as np

from tests.support.c_cases import Case, Known, Operand, assert_as_onnxruntime, assert_same_bits, refusal

RNG = np.random.default_rng(0)


def array(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def case(
    operator: str, image: tuple[int, ...], weights: tuple[int, ...], bias: int | None = None, **attributes: Any
) -> Case:
    operands: list[Operand] = [array(*image), Known(array(*weights)), Known(array(bias)) if bias else None]
    return Case(operator, operands, attributes)


def test_images_of_one_two_and_three_dimensions():
    assert_as_onnxruntime(
        [
            case("Conv", (1, 3, 10), (5, 3, 3)),
            case("Conv", (2, 3, 10), (20, 3, 4), 20, strides=[2], pads=[1, 2]),
            case("Conv", (1, 4, 12, 12), (32, 4, 8, 8), 32, strides=[4, 4]),
            case("Conv", (2, 3, 9, 7), (6, 3, 3, 3), 6, pads=[1, 1, 1, 1]),
            case("Conv", (1, 3, 9, 7), (17, 3, 2, 3), dilations=[2, 3]),
            case("Conv", (1, 2, 5, 4, 6), (4, 2, 2, 3, 2), 4, strides=[1, 2, 1], pads=[0, 1, 1, 1, 0, 1]),
            case("Conv", (1, 2, 3, 3), (4, 2, 3, 3)),
            case("Conv", (1, 2, 3, 4), (1, 2, 1, 1), 1),
        ]
    )


def test_groups():
    assert_as_onnxruntime(
        [
            case("Conv", (2, 6, 8, 8), (6, 1, 3, 3), 6, group=6, pads=[1, 1, 1, 1]),
            case("Conv", (2, 6, 8, 8), (12, 1, 3, 3), group=6, strides=[2, 1]),
            case("Conv", (1, 4, 3, 3), (4, 1, 2, 2), 4, group=4),
            case("Conv", (1, 2, 70), (4, 1, 3), 4, group=2, dilations=[2]),
            case("Conv", (2, 3, 4, 5, 6), (3, 1, 2, 2, 2), group=3, pads=[0, 1, 0, 1, 0, 1]),
            case("Conv", (2, 6, 8), (10, 3, 3), 10, group=2),
            case("Conv", (1, 6, 8, 5), (4, 3, 3, 2), 4, group=2, strides=[2, 2]),
        ]
    )


def test_pads_that_follow_from_strides():
    assert_as_onnxruntime(
        [
            case("Conv", (1, 2, size, 6), (5, 2, 3, 4), auto_pad=pads, strides=[2, 3])
            for size in (7, 8)
            for pads in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        ]
    )


def test_transposed_convolutions():
    assert_as_onnxruntime(
        [
            case("ConvTranspose", (1, 3, 5), (3, 4, 3)),
            case("ConvTranspose", (2, 4, 5, 4), (4, 3, 3, 2), 6, group=2, strides=[2, 3], pads=[1, 0, 0, 1]),
            case("ConvTranspose", (1, 2, 4, 4), (2, 8, 4, 4), 8, strides=[2, 2], pads=[1, 1, 1, 1]),
            case("ConvTranspose", (1, 2, 4, 4), (2, 3, 3, 3), strides=[2, 2], output_padding=[1, 1], dilations=[2, 1]),
        ]
    )


def test_a_bias_may_be_computed():
    image, weights, bias = array(1, 2, 6, 6), Known(array(8, 2, 3, 3)), array(8)
    assert_as_onnxruntime([Case("Conv", (image, weights, bias)), Case("Conv", (image, weights, Known(bias)))])


def test_doubles_are_computed_as_doubles():
    image, weights = RNG.normal(size=(1, 1, 1, 5)), RNG.normal(size=(8, 1, 1, 5))
    wanted = (image * weights).sum((1, 2, 3)).reshape(1, 8, 1, 1)
    cases = [
        Case("Conv", (image, Known(weights)), expected=[wanted]),
        Case("Conv", (image, Known(weights[:1])), expected=[wanted[:, :1]]),
    ]
    assert_as_onnxruntime(cases, tolerance=1e-14)


def test_nan_and_infinity_reach_the_windows_that_they_are_in():
    image, weights = np.ones((1, 1, 1, 5), np.float32), np.ones((8, 1, 1, 2), np.float32)
    image[..., 1], image[..., 4] = np.nan, -np.inf
    line = np.array([np.nan, np.nan, 2, -np.inf], np.float32)
    wanted = np.broadcast_to(line, (1, 8, 1, 4))
    assert_as_onnxruntime(
        [
            Case("Conv", (image, Known(weights)), expected=[wanted]),
            Case("Conv", (image, Known(weights[:1])), expected=[wanted[:, :1]]),
        ]
    )


def test_each_build_gives_the_same_bits():
    assert_same_bits(
        [
            case("Conv", (1, 3, 9, 7), (17, 3, 3, 3), 17, pads=[1, 1, 1, 1]),
            case("Conv", (1, 3, 9, 7), (71, 3, 3, 3), 71),
            case("Conv", (1, 3, 12, 9), (3, 1, 3, 3), 3, group=3),
            case("Conv", (1, 3, 12, 9), (3, 1, 3, 3), 3, group=3, strides=[2, 1]),
            case("ConvTranspose", (1, 4, 4, 4), (4, 8, 4, 4), strides=[2, 2]),
        ]
    )


def test_weights_that_are_computed_are_refused():
    image, weights = array(1, 1, 5), array(2, 1, 3)
    computed = refusal(Case("Conv", (image, weights)))
    assert "operator Conv whose weights are computed (of float32[1, 1, 5], float32[2, 1, 3])" in computed
    shaped = refusal(Case("ConvTranspose", (image, Known(array(1, 2, 3))), {"output_shape": [7]}))
    assert "operator ConvTranspose whose pads follow from its output" in shaped
