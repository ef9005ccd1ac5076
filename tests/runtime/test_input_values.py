"""Values that step(), ramps and safe commands take: converted where nothing is lost, refused otherwise."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from exploy.contract import Contract, Port
from exploy.errors import FaultError, RuntimeInputError
from exploy.runtime import Controller, Guards
from exploy.runtime.input_writer import converted
from tests.support.files import made_by_hand, robot_file, robot_inputs


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([2**32, 0], "int32"),
        ([2**31, 0], "int32"),
        ([-(2**31) - 1, 0], "int32"),
        ([2**32, 0], "uint8"),
        ([2**63, 0], "int64"),
        ([2**64, 0], "int64"),
        ([-1, 0], "uint8"),
        ([-1, 0], "uint64"),
        (np.array([300, 0]), "int8"),
        (np.array([2**32, 0]), "int32"),
        (np.array([2**63, 0], np.uint64), "int64"),
        (np.array([-1, 0]), "uint32"),
        ([1e20, 0.0], "int64"),
        ([1.5, 0.0], "int64"),
        (np.array([1.0, 2.0]), "int64"),
        ([1e39, 0.0], "float32"),
        (np.array([1e39, 0.0]), "float32"),
        (np.array([-1e39, np.nan]), "float32"),
        ([70000, 0], "float16"),
        (np.array([1.0 + 1.0j, 0.0]), "float32"),
        ([1, 0], "bool"),
        (["1", "0"], "float32"),
        (np.ma.array([1.0, 2.0], mask=[False, True], dtype=np.float32), "float32"),
        ([np.ma.array(1.0, mask=True), 2.0], "float32"),
        ((np.ma.masked, 2.0), "float32"),
    ],
)
def test_values_that_would_change_are_refused(value: Any, dtype: str) -> None:
    with pytest.raises(RuntimeInputError, match=f"'x' must be {dtype} "):
        converted("x", value, np.zeros(2, dtype))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array([1.0, 2.0]), "float32"),
        (np.array([1, 2]), "float32"),
        (np.array([1, 2], np.uint64), "int32"),
        (np.array([1.0, 2.0], ">f4"), "float32"),
        (np.ma.array([1.0, 2.0], mask=[False, False]), "float32"),
        ([np.float64(1), 2], "float16"),
        ((1, 2), "uint8"),
    ],
)
def test_values_that_fit_are_converted_and_never_shared(value: Any, dtype: str) -> None:
    array = converted("x", value, np.zeros((1, 2), dtype))
    assert array.dtype == dtype and array.tolist() == [[1, 2]]
    assert not isinstance(value, np.ndarray) or not np.shares_memory(array, value)


def test_infinity_stays_infinity() -> None:
    assert converted("x", np.array([np.inf, -np.inf]), np.zeros(2, np.float32)).tolist() == [np.inf, -np.inf]


def test_arrays_of_float64_are_taken_by_steps_and_ramps() -> None:
    plain, other = Controller.load(robot_file()), Controller.load(robot_file())
    wide = {name: value.astype(np.float64) for name, value in robot_inputs().items()}
    for controller, start in ((plain, [1.0, 2.0, 3.0]), (other, np.array([1.0, 2.0, 3.0]))):
        controller.ramp_in("joint_targets", start, seconds=0.1)
    expected, got = plain.step(robot_inputs()), other.step(wide)
    np.testing.assert_array_equal(got["joint_targets"], expected["joint_targets"])
    with pytest.raises(RuntimeInputError, match="beyond the range of float32"):
        other.ramp_in("joint_targets", np.array([1.0, 2.0, 1e39]), seconds=0.1)
    with pytest.raises(FaultError, match=r"'cmd' must be .* beyond the range of float32"):
        other.step(wide | {"cmd": np.array([[1e39, 0.0]])})


def sums_file() -> bytes:
    """Both inputs side by side: first = a + 0, second = b + 0."""
    ports = [Port(name, "float32", (1, 2)) for name in ("a", "b", "first", "second")]
    contract = Contract(1, tuple(ports[:2]), tuple(ports[2:]), ())
    nodes = [helper.make_node("Identity", [name], [out]) for name, out in (("a", "first"), ("b", "second"))]
    return made_by_hand(nodes, contract)


@pytest.mark.parametrize("guards", [Guards(), Guards.off()])
def test_the_controllers_own_buffers_can_be_given_in_any_order(guards: Guards) -> None:
    def stepped(*values: Any) -> list[Any]:
        controller.inputs["a"][...], controller.inputs["b"][...] = [[1, 2]], [[3, 4]]
        found = controller.step(dict(zip(("a", "b"), (value() for value in values), strict=True)))
        return [found["first"].tolist(), found["second"].tolist()]

    controller = Controller.load(sums_file(), guards=guards)
    a, b = (lambda: controller.inputs["a"]), (lambda: controller.inputs["b"])
    assert stepped(b, a) == [[[3, 4]], [[1, 2]]]
    assert stepped(lambda: np.array([[5, 6]], np.float32), a) == [[[5, 6]], [[1, 2]]]
    assert stepped(b, lambda: a()[:, ::-1]) == [[[3, 4]], [[2, 1]]]
    assert stepped(b, lambda: np.frombuffer(a(), np.float32)) == [[[3, 4]], [[1, 2]]]
    assert stepped(b, lambda: np.asarray(a().data)) == [[[3, 4]], [[1, 2]]]
    assert stepped(lambda: a()[:, ::-1], b) == [[[2, 1]], [[3, 4]]]


def test_if_one_value_is_refused_none_is_written() -> None:
    controller = Controller.load(sums_file())
    controller.step({"a": [1, 2], "b": [3, 4]})
    with pytest.raises(FaultError):
        controller.step({"a": [5, 6], "b": [7]})
    assert controller.inputs["a"].tolist() == [[1, 2]]
