"""difference(): whether two arrays agree, and where they disagree most."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from exploy.comparison import Difference, difference

reproducible = settings(derandomize=True, deadline=None, max_examples=300)
NAN, INF = math.nan, math.inf


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


# -- elements that are no ordinary numbers --------------------------------------------------------------------


def test_equal_arrays_do_not_differ() -> None:
    assert difference(floats(0.1, -2.0, 0.0), floats(0.1, -2.0, -0.0), atol=0.0, rtol=0.0) is None


def test_two_nans_are_equal() -> None:
    assert difference(floats(1.0, NAN), floats(1.0, NAN), atol=0.0, rtol=0.0) is None


def test_equal_infinities_are_equal() -> None:
    assert difference(floats(INF, -INF), floats(INF, -INF), atol=0.0, rtol=0.0) is None


@pytest.mark.parametrize(
    ("expected", "got"), [(NAN, 1.0), (1.0, NAN), (INF, 1.0), (1.0, -INF), (INF, -INF), (NAN, INF), (-INF, NAN)]
)
@pytest.mark.parametrize("by_largest", [False, True])
def test_no_tolerance_makes_up_for_a_nan_or_an_infinity(expected: float, got: float, by_largest: bool) -> None:
    found = difference(floats(5.0, expected), floats(5.0, got), atol=1e6, rtol=1e6, by_largest=by_largest)
    assert found is not None
    assert found.index == (1,)
    assert found.error == INF


def test_an_infinity_does_not_widen_the_tolerance_of_its_neighbours() -> None:
    found = difference(floats(INF, 1.0), floats(INF, 1.1), atol=0.0, rtol=0.01, by_largest=True)
    assert found is not None
    assert found.index == (1,)


def test_a_nan_goes_before_any_finite_error() -> None:
    found = difference(floats(0.0, 0.0, 0.0), floats(1e30, NAN, 1.0), atol=0.0, rtol=0.0)
    assert found is not None
    assert found.index == (1,)


# -- integers and booleans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.bool_])
def test_integers_and_booleans_must_be_the_same_whatever_the_tolerance(dtype: type[np.generic]) -> None:
    expected, got = np.array([0, 1, 1], dtype=dtype), np.array([0, 1, 0], dtype=dtype)
    assert difference(expected, expected.copy(), atol=0.0, rtol=0.0) is None
    found = difference(expected, got, atol=100.0, rtol=100.0)
    assert found == Difference((2,), expected=1.0, got=0.0)


def test_integers_of_opposite_ends_do_not_wrap_around() -> None:
    found = difference(np.array([-128], np.int8), np.array([127], np.int8), atol=0.0, rtol=0.0)
    assert found is not None
    assert found.error == 255.0


def test_an_expected_integer_is_not_met_by_a_number_near_it() -> None:
    assert difference(np.array([3]), np.array([3.0]), atol=0.5, rtol=0.5) is None
    assert difference(np.array([3]), np.array([3.1]), atol=0.5, rtol=0.5) is not None


@reproducible
@given(st.data())
def test_integers_agree_exactly_where_all_elements_are_equal(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.int8, np.int32, np.uint8, np.bool_]))
    shape = data.draw(st_numpy.array_shapes(min_side=0, max_side=3))
    expected, got = (data.draw(st_numpy.arrays(dtype, shape)) for _ in range(2))
    assert (difference(expected, got, atol=1.0, rtol=1.0) is None) == np.array_equal(expected, got)


# -- tolerance ------------------------------------------------------------------------------------------------


def test_the_absolute_tolerance_counts_for_every_element() -> None:
    expected, got = np.array([0.0, 1000.0]), np.array([0.25, 1000.25])
    assert difference(expected, got, atol=0.25, rtol=0.0) is None
    assert difference(expected, got, atol=0.24, rtol=0.0) is not None


def test_the_relative_tolerance_is_measured_by_each_expected_element() -> None:
    expected, got = np.array([1.0, -1000.0]), np.array([1.0, -1001.0])
    assert difference(expected, got, atol=0.0, rtol=0.01) is None
    found = difference(np.array([1.0, -1000.0]), np.array([2.0, -1000.0]), atol=0.0, rtol=0.01)
    assert found == Difference((0,), expected=1.0, got=2.0)


def test_or_by_the_largest_expected_element_where_that_is_asked_for() -> None:
    expected, got = np.array([1.0, -1000.0]), np.array([2.0, -1000.0])
    assert difference(expected, got, atol=0.0, rtol=0.01, by_largest=True) is None
    assert difference(expected, got, atol=0.0, rtol=0.0001, by_largest=True) is not None


def test_what_came_instead_does_not_widen_the_tolerance() -> None:
    for by_largest in (False, True):
        assert difference(floats(1.0), floats(1e6), atol=0.0, rtol=0.5, by_largest=by_largest) is not None


def test_absolute_and_relative_tolerance_add_up() -> None:
    assert difference(np.array([10.0]), np.array([11.5]), atol=0.5, rtol=0.1) is None
    assert difference(np.array([10.0]), np.array([11.6]), atol=0.5, rtol=0.1) is not None


def test_float32_is_compared_at_the_precision_of_float64() -> None:
    found = difference(np.array([1.0]), np.array([0.1], np.float32), atol=0.0, rtol=0.0)
    assert found is not None
    assert found.got == float(np.float32(0.1))


# -- what is reported -----------------------------------------------------------------------------------------


def test_the_worst_element_is_named_by_index_and_values() -> None:
    expected, got = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    got[0, 1], got[1, 2] = 0.5, -2.0
    found = difference(expected, got, atol=0.1, rtol=0.0)
    assert found == Difference((1, 2), expected=0.0, got=-2.0)
    assert found.error == 2.0
    assert str(found) == "element [1, 2] is -2, expected 0"


def test_the_message_shows_enough_digits_to_tell_float32_values_apart() -> None:
    value = floats(0.1)
    found = difference(value, np.nextafter(value, floats(1.0)), atol=0.0, rtol=0.0)
    assert str(found) == "element [0] is 0.100000009, expected 0.100000001"


def test_the_worst_element_is_the_one_furthest_beyond_its_own_tolerance() -> None:
    found = difference(np.array([1.0, 1000.0]), np.array([1.5, 1010.0]), atol=0.0, rtol=0.0099)
    assert found is not None
    assert found.index == (0,)


def test_the_index_is_made_of_plain_integers() -> None:
    found = difference(np.zeros((1, 2)), np.array([[0.0, 1.0]]), atol=0.0, rtol=0.0)
    assert found is not None
    assert [type(position) for position in found.index] == [int, int]
    assert isinstance(found.expected, float)
    assert isinstance(found.got, float)


# -- shapes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
@pytest.mark.parametrize("by_largest", [False, True])
def test_empty_arrays_do_not_differ(shape: tuple[int, ...], by_largest: bool) -> None:
    for dtype in (np.float32, np.int64, np.bool_):
        empty = np.zeros(shape, dtype=dtype)
        assert difference(empty, empty.copy(), atol=0.0, rtol=0.0, by_largest=by_largest) is None


@pytest.mark.parametrize(("expected", "got"), [((1, 3), (3,)), ((3,), ()), ((0, 3), (3, 0)), ((2, 1), (1, 2))])
def test_other_shapes_are_refused_instead_of_broadcast(expected: tuple[int, ...], got: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape") as caught:
        difference(np.zeros(expected), np.zeros(got), atol=1.0, rtol=1.0)
    assert str(expected) in str(caught.value)
    assert str(got) in str(caught.value)


# -- in general -----------------------------------------------------------------------------------------------

numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.0001, 2.0, 1000.0, NAN, INF, -INF]),
    st.floats(-1e6, 1e6, width=32),
)
tolerances = st.sampled_from([0.0, 1e-5, 1e-3, 0.1, 10.0])


def excess(expected: float, got: float, allowed: float) -> float:
    """How far an element is beyond its tolerance, in plain Python."""
    if expected == got or (math.isnan(expected) and math.isnan(got)):
        return -allowed
    error = abs(expected - got)
    return error - allowed if math.isfinite(error) else INF


@reproducible
@given(st.data())
def test_the_verdict_is_that_of_the_elements_one_by_one(data: st.DataObject) -> None:
    shape = data.draw(st_numpy.array_shapes(max_dims=2, max_side=3))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    expected, got = (data.draw(st_numpy.arrays(dtype, shape, elements=numbers)) for _ in range(2))
    atol, rtol, by_largest = data.draw(tolerances), data.draw(tolerances), data.draw(st.booleans())
    sizes = [abs(value) if math.isfinite(value) else 0.0 for value in expected.ravel().tolist()]
    beyond = [
        excess(e, g, atol + rtol * (max(sizes) if by_largest else size))
        for e, g, size in zip(expected.ravel().tolist(), got.ravel().tolist(), sizes, strict=True)
    ]
    found = difference(expected, got, atol, rtol, by_largest=by_largest)
    if found is None:
        assert max(beyond) <= 0
    else:
        assert max(beyond) > 0
        assert beyond[int(np.ravel_multi_index(found.index, shape))] == max(beyond)
        np.testing.assert_array_equal(found.expected, float(expected[found.index]))
        np.testing.assert_array_equal(found.got, float(got[found.index]))


@reproducible
@given(st_numpy.arrays(st.sampled_from([np.float16, np.float32, np.float64]), st_numpy.array_shapes(min_side=0)))
def test_an_array_agrees_with_itself_whatever_is_in_it(array: np.ndarray) -> None:
    assert difference(array, array.copy(), atol=0.0, rtol=0.0) is None


@reproducible
@given(st_numpy.arrays(np.float32, st_numpy.array_shapes(max_side=3)), st.data())
def test_comparing_does_not_change_the_arrays(array: np.ndarray, data: st.DataObject) -> None:
    other = data.draw(st_numpy.arrays(np.float32, array.shape))
    before = array.tobytes(), other.tobytes()
    difference(array, other, atol=0.1, rtol=0.1)
    assert (array.tobytes(), other.tobytes()) == before


def test_scalars_are_compared():
    assert difference(np.array(1.0), np.array(1.0), 0, 0) is None
    found = difference(np.array(1.0), np.array(2.0), 0, 0)
    assert found is not None and found.index == ()


def test_large_integers_are_compared_exactly():
    assert difference(np.array([2**53]), np.array([2**53 + 1]), 0, 0) is not None


def test_huge_values_are_compared_without_a_warning():
    assert difference(np.array([1e308]), np.array([-1e308]), 0, 0) is not None


def test_imaginary_parts_are_compared():
    assert difference(np.array([1 + 1j]), np.array([1 + 2j]), 0, 0) is not None
