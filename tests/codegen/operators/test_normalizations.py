"""Normalisations in C."""

import numpy as np

from tests.support.c_cases import Case, Known, Operand, assert_as_onnxruntime, refusal

RNG = np.random.default_rng(0)
NAN, INF = np.nan, np.inf


def array(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return (RNG.normal(size=shape) + 0.5).astype(dtype)


def channels(count: int) -> list[np.ndarray]:
    scale, bias, mean, variance = array(4, count)
    return [scale, bias, mean, np.abs(variance) + np.float32(0.1)]


def test_batches_are_normalized_by_known_or_computed_statistics():
    cases = []
    for shape in [(1, 3), (4, 3), (2, 5, 7), (1, 2, 4, 6), (2, 3, 2, 2, 2)]:
        statistics: list[Operand] = [*channels(shape[1])]
        known = [Known(item) for item in statistics if isinstance(item, np.ndarray)]
        cases += [
            Case("BatchNormalization", (array(*shape), *known)),
            Case("BatchNormalization", (array(*shape), *statistics), {"epsilon": 0.01}),
            Case("BatchNormalization", (array(*shape), *statistics[:3], known[3])),
        ]
    assert_as_onnxruntime(cases)


def test_layers_are_normalized_over_their_last_dimensions():
    cases = []
    for shape, axis in [((5,), 0), ((1, 16), -1), ((3, 17), 1), ((2, 3, 40), -1), ((2, 3, 4), 1), ((2, 3, 4), -2)]:
        inner = shape[axis:]
        form = {"axis": axis, "epsilon": 1e-4}
        cases += [
            Case("LayerNormalization", (array(*shape), Known(array(*inner)), Known(array(*inner))), form),
            Case("LayerNormalization", (array(*shape), array(*inner)), form),
        ]
    cases.append(Case("LayerNormalization", (array(2, 3, 33), array(33), array(33)), outputs=3))
    assert_as_onnxruntime(cases, tolerance=5e-6)


def test_instances_and_groups_are_normalized():
    image = array(2, 6, 5, 4)
    cases = [
        Case("InstanceNormalization", (array(2, 3, 9), Known(array(3)), Known(array(3)))),
        Case("InstanceNormalization", (image, array(6), array(6)), {"epsilon": 1e-3}),
        Case("GroupNormalization", (image, Known(array(3)), Known(array(3))), {"num_groups": 3}),
        Case("GroupNormalization", (image, array(1), array(1)), {"num_groups": 1}),
    ]
    assert_as_onnxruntime(cases, tolerance=5e-6)


def test_groups_have_a_scale_for_each_channel_in_later_opsets():
    cases = [Case("GroupNormalization", (array(2, 6, 5), Known(array(6)), array(6)), {"num_groups": 3})]
    assert_as_onnxruntime(cases, tolerance=5e-6, opset=21)


def test_root_mean_squares_are_divided_by():
    cases = [
        Case("RMSNormalization", (array(3, 20), Known(array(20))), {"axis": -1, "epsilon": 1e-4}),
        Case("RMSNormalization", (array(2, 3, 5), array(3, 5)), {"axis": 1}),
    ]
    assert_as_onnxruntime(cases, opset=23)


def test_norms_are_divided_by():
    x = array(3, 4, 5)
    x[1, :, 2] = 0
    cases = [Case("LpNormalization", (x,), {"axis": axis, "p": p}) for axis in (0, 1, -1) for p in (1, 2)]
    assert_as_onnxruntime(cases)


def test_nan_and_infinity_reach_the_row_that_they_are_in():
    x = array(4, 20)
    x[0, 3], x[1, 2], x[2, 5] = NAN, INF, -INF
    wanted = np.full((4, 20), NAN, np.float32)
    wanted[3] = (x[3] - x[3].mean()) / np.sqrt(x[3].var() + np.float32(1e-5))
    ones = np.ones(20, np.float32)
    assert_as_onnxruntime([Case("LayerNormalization", (x, Known(ones)), expected=[wanted])])


def test_training_is_refused():
    case = Case("BatchNormalization", (array(2, 3), *channels(3)), {"training_mode": 1}, outputs=3)
    assert "operator BatchNormalization in training (of float32[2, 3]" in refusal(case)
