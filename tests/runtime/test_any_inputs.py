"""Whatever is given to step(): finite outputs or a fault, and after a reset everything is as before."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from exploy.errors import FaultError
from exploy.runtime import Controller, Fault, Guards
from tests.support.files import robot_file, robot_inputs

NAMES = ["joints.pos", "joints.vel", "cmd"]
SHAPES = {"joints.pos": (1, 4), "joints.vel": (1, 4), "cmd": (1, 2)}
CONTROLLER = Controller.load(robot_file())
EXPECTED = [Controller.load(robot_file()).step(robot_inputs())["joint_targets"]]
UNGUARDED = Controller.load(robot_file(), guards=Guards.off())

numbers = st.one_of(
    st.floats(width=32),
    st.integers(),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.complex_numbers(),
    st.binary(max_size=3),
)
arrays = st_numpy.arrays(
    dtype=st.sampled_from(["float32", "float64", "float16", "int64", "bool", "uint8", "complex64", "U3", "object"]),
    shape=st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
lists = st.recursive(numbers, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
fitting = {name: st_numpy.arrays("float32", shape, elements=st.floats(width=32)) for name, shape in SHAPES.items()}
good = {name: st.just(robot_inputs()[name]) for name in NAMES}
dictionaries = st.one_of(
    st.fixed_dictionaries(fitting),
    st.fixed_dictionaries(good | {"cmd": st.one_of(arrays, lists)}),
    st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=3)), st.one_of(arrays, lists), max_size=4),
    st.fixed_dictionaries({}, optional=dict(good)),
)


def outcome(controller: Controller, values: Any) -> dict[str, np.ndarray] | Fault:
    """What a step returns, or the fault that it raises."""
    try:
        return controller.step(values)
    except FaultError as error:
        return error.fault


@settings(derandomize=True, deadline=None, max_examples=500)
@given(values=dictionaries)
def test_a_step_gives_finite_outputs_or_a_fault(values: dict[str, Any]) -> None:
    CONTROLLER.reset()
    found = outcome(CONTROLLER, values)
    if isinstance(found, Fault):
        assert CONTROLLER.fault is found and CONTROLLER.ticks == 0
    else:
        assert set(values) == set(NAMES)
        assert all(np.isfinite(value).all() for value in found.values())
    CONTROLLER.reset()
    np.testing.assert_array_equal(CONTROLLER.step(robot_inputs())["joint_targets"], EXPECTED[0])


@settings(derandomize=True, deadline=None, max_examples=300)
@given(values=st.one_of(dictionaries, lists, arrays))
def test_without_guards_there_is_no_other_error_than_a_fault(values: Any) -> None:
    UNGUARDED.reset()
    found = outcome(UNGUARDED, values)
    assert not isinstance(found, Fault) or found.guard == "inputs"
    UNGUARDED.reset()
    np.testing.assert_array_equal(UNGUARDED.step(robot_inputs())["joint_targets"], EXPECTED[0])


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(["step", "reset", "bad", "tick"]), max_size=30))
def test_any_order_of_calls_keeps_the_count_and_the_memories(calls: list[str]) -> None:
    controller, count, is_faulty = CONTROLLER, 0, False
    controller.reset()
    plain = Controller.load(robot_file()) if "reset" not in calls else None
    for call in calls:
        if call == "reset":
            controller.reset()
            count, is_faulty = 0, False
            continue
        bad = robot_inputs(count) | {"cmd": np.full((1, 2), np.nan, np.float32)}
        try:
            if call == "tick":
                for name, value in robot_inputs(count).items():
                    controller.inputs[name][:] = value
                controller.tick()
            else:
                controller.step(bad if call == "bad" else robot_inputs(count))
        except FaultError:
            is_faulty = True
            continue
        assert not is_faulty and call != "bad"
        if plain is not None:
            expected = plain.step(robot_inputs(count))["joint_targets"]
            np.testing.assert_array_equal(controller.outputs["joint_targets"], expected)
        count += 1
    assert controller.ticks == count
