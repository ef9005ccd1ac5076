"""Input, Output, Memory, Group and Connection: names for tensors of a live environment."""

from typing import Any

import numpy as np
import pytest
import torch

from exploy.errors import ComponentError
from exploy.exporter.core.components import Connection, Group, Input, Memory, Output


class Robot:
    """Has tensors that are written in place and tensors that are replaced."""

    def __init__(self) -> None:
        self.position = torch.tensor([[1.0, 2.0, 3.0]])


@pytest.fixture
def robot() -> Robot:
    return Robot()


def make(kind: type[Any], name: str, callback: Any) -> Any:
    return kind(name, callback)


components = pytest.mark.parametrize("kind", [Input, Output, Memory])


def test_an_input_and_an_output_use_their_name_as_the_name_of_the_port(robot: Robot) -> None:
    assert Input("joint_pos", lambda: robot.position).input_name == "joint_pos"
    assert Output("targets", lambda: robot.position).output_name == "targets"


def test_a_memory_has_one_port_in_and_one_out(robot: Robot) -> None:
    memory = Memory("last_actions", lambda: robot.position)
    assert memory.name == "last_actions"
    assert memory.input_name == "memory.last_actions.in"
    assert memory.output_name == "memory.last_actions.out"


def test_a_memory_is_both_an_input_and_an_output(robot: Robot) -> None:
    memory = Memory("last_actions", lambda: robot.position)
    assert isinstance(memory, Input)
    assert isinstance(memory, Output)


@pytest.mark.parametrize("name", ["actions", "robot.hidden", "in", "out", "memory", "a.in", "a.out", "memory.a"])
def test_port_names_of_a_memory_lead_back_to_its_name(robot: Robot, name: str) -> None:
    memory = Memory(name, lambda: robot.position)
    for port in (memory.input_name, memory.output_name):
        assert memory.io_name_to_name(port) == name
        assert memory.io_name_to_output_name(port) == memory.output_name


@pytest.mark.parametrize(
    "io_name", ["", "actions", "memory.actions", "actions.in", "memory.in", "memory..in", "Memory.actions.in"]
)
def test_a_name_that_is_no_memory_port_is_not_converted(robot: Robot, io_name: str) -> None:
    memory = Memory("actions", lambda: robot.position)
    with pytest.raises(ComponentError, match=r"memory\.NAME\.in"):
        memory.io_name_to_name(io_name)
    with pytest.raises(ComponentError, match=r"memory\.NAME\.in"):
        memory.io_name_to_output_name(io_name)


@pytest.mark.parametrize("kind", [Input, Output])
@pytest.mark.parametrize("metadata", [None, {}, {"joint_names": ["hip"]}, "metres", 0])
def test_metadata_is_kept_as_it_was_given(robot: Robot, kind: type[Any], metadata: Any) -> None:
    assert kind("x", lambda: robot.position, metadata).metadata is metadata


def test_a_memory_has_no_metadata(robot: Robot) -> None:
    assert Memory("x", lambda: robot.position).metadata is None


@components
def test_the_callback_can_be_had_back(robot: Robot, kind: type[Any]) -> None:
    def callback() -> torch.Tensor:
        return robot.position

    assert make(kind, "x", callback).get_from_env_cb is callback


@components
def test_making_a_component_does_not_call_its_callback(kind: type[Any]) -> None:
    def not_ready_yet() -> torch.Tensor:
        raise RuntimeError("the simulator has not started")

    assert make(kind, "x", not_ready_yet).name == "x"


def test_ids_are_unique_across_kinds(robot: Robot) -> None:
    made = [make(kind, "same", lambda: robot.position) for kind in (Input, Output, Memory, Input, Output, Memory)]
    assert len({component.id for component in made}) == len(made)


def test_an_id_stays_the_same_while_the_component_is_used(robot: Robot) -> None:
    component = Memory("x", lambda: robot.position)
    before = component.id
    component.read()
    assert component.value is robot.position
    assert component.id == before


@components
def test_a_component_shows_its_kind_and_name(robot: Robot, kind: type[Any]) -> None:
    assert repr(make(kind, "joint_pos", lambda: robot.position)) == f"{kind.__name__}('joint_pos')"


@components
@pytest.mark.parametrize("name", ["", " ", "two words", "tab\t", "line\n", "no-break\u00a0space", None, 3, b"bytes"])
def test_a_name_must_be_a_string_without_white_space(robot: Robot, kind: type[Any], name: Any) -> None:
    with pytest.raises(ComponentError, match=rf"A {kind.__name__} needs a name .* got"):
        make(kind, name, lambda: robot.position)


@pytest.mark.parametrize("name", ["", "two words", None])
def test_groups_and_connections_need_a_proper_name_too(name: Any) -> None:
    with pytest.raises(ComponentError, match="A Group needs a name"):
        Group(name, [])
    with pytest.raises(ComponentError, match="A Connection needs a name"):
        Connection(name, lambda: 0, lambda value: None)


@components
def test_a_tensor_instead_of_a_callback_is_refused_with_advice(robot: Robot, kind: type[Any]) -> None:
    with pytest.raises(ComponentError, match=r"'joint_pos'.*callback.*got Tensor.*lambda"):
        make(kind, "joint_pos", robot.position)


@pytest.mark.parametrize("value", [None, 1.0, [1.0], np.zeros(3)])
def test_a_callback_that_returns_no_tensor_is_refused_by_name(value: Any) -> None:
    expected = rf"'joint_pos'\) must return a torch.Tensor, got {type(value).__name__}"
    for component in (Input("joint_pos", lambda: value), Memory("joint_pos", lambda: value)):
        with pytest.raises(ComponentError, match=expected):
            component.read()
        with pytest.raises(ComponentError, match=expected):
            _ = component.input_data
    for result in (Output("joint_pos", lambda: value), Memory("joint_pos", lambda: value)):
        with pytest.raises(ComponentError, match=expected):
            _ = result.value
        with pytest.raises(ComponentError, match=expected):
            _ = result.value_numpy


def test_errors_of_the_callback_itself_come_through_unchanged() -> None:
    def broken() -> torch.Tensor:
        raise ZeroDivisionError("inside the environment")

    with pytest.raises(ZeroDivisionError, match="inside the environment"):
        Input("x", broken).read()


def test_an_input_reads_by_itself_when_its_data_is_first_asked_for(robot: Robot) -> None:
    assert Input("x", lambda: robot.position).input_data is robot.position


def test_an_input_keeps_the_data_of_the_last_read_until_it_is_read_again(robot: Robot) -> None:
    component = Input("x", lambda: robot.position)
    component.read()
    first, robot.position = robot.position, torch.tensor([[4.0, 5.0, 6.0]])
    assert component.input_data is first
    component.read()
    assert component.input_data is robot.position


def test_an_output_is_always_what_the_environment_has_now(robot: Robot) -> None:
    component = Output("x", lambda: robot.position)
    robot.position = torch.tensor([[4.0, 5.0, 6.0]])
    assert component.value is robot.position
    np.testing.assert_array_equal(component.value_numpy, [[4.0, 5.0, 6.0]])


def test_a_memory_tells_what_went_in_from_what_comes_out(robot: Robot) -> None:
    memory = Memory("x", lambda: robot.position)
    memory.read()
    robot.position = robot.position + 1
    np.testing.assert_array_equal(memory.input_data_numpy, [[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(memory.value_numpy, [[2.0, 3.0, 4.0]])


@pytest.mark.parametrize(
    ("changed", "described"),
    [
        (torch.zeros(1, 4), r"shape \(1, 4\) float32"),
        (torch.zeros(3), r"shape \(3,\) float32"),
        (torch.zeros(2, 3), r"shape \(2, 3\) float32"),
        (torch.zeros(1, 3, dtype=torch.float64), r"shape \(1, 3\) float64"),
        (torch.zeros(1, 3, dtype=torch.int32), r"shape \(1, 3\) int32"),
    ],
)
def test_another_shape_or_dtype_is_refused_and_both_are_named(
    robot: Robot, changed: torch.Tensor, described: str
) -> None:
    component = Input("joint_pos", lambda: robot.position)
    component.read()
    original, robot.position = robot.position, changed
    with pytest.raises(ComponentError, match=rf"'joint_pos'.*shape \(1, 3\) float32 before and {described} now"):
        component.read()
    assert component.input_data is original


def test_numpy_data_does_not_alias_the_environment(robot: Robot) -> None:
    component = Memory("x", lambda: robot.position)
    taken, given = component.input_data_numpy, component.value_numpy
    robot.position[:] = 9.0
    np.testing.assert_array_equal(taken, [[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(given, [[1.0, 2.0, 3.0]])
    taken[:] = -1.0
    given[:] = -2.0
    assert robot.position.tolist() == [[9.0, 9.0, 9.0]]


def test_numpy_data_of_tensors_that_need_gradients_or_are_views() -> None:
    weights = torch.arange(6.0).reshape(2, 3).requires_grad_()
    component = Output("x", lambda: weights.T)
    np.testing.assert_array_equal(component.value_numpy, [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float64])
def test_numpy_data_has_the_dtype_and_shape_of_the_tensor(dtype: torch.dtype) -> None:
    for shape in ((), (0, 3), (2, 1)):
        tensor = torch.ones(shape, dtype=dtype)
        value = Input("x", lambda tensor=tensor: tensor).input_data_numpy  # type: ignore[misc]
        assert isinstance(value, np.ndarray)
        assert value.shape == shape
        assert str(value.dtype) == str(dtype).removeprefix("torch.")


def test_a_group_keeps_its_items_in_order(robot: Robot) -> None:
    items: list[Input | Output | Group] = [
        Output("b", lambda: robot.position),
        Group("nested", []),
        Memory("a", lambda: robot.position),
    ]
    group = Group("robot", iter(items), metadata={"type": "arm"})
    assert group.name == "robot"
    assert group.items == items
    assert group.metadata == {"type": "arm"}


def test_a_group_does_not_follow_changes_of_lists_outside(robot: Robot) -> None:
    given = [Input("a", lambda: robot.position)]
    group = Group("robot", given)
    given.clear()
    group.items.clear()
    assert [item.name for item in group.items] == ["a"]


def test_making_a_group_does_not_rename_its_items(robot: Robot) -> None:
    item = Input("a", lambda: robot.position)
    Group("robot", [item])
    assert item.input_name == "a"


@pytest.mark.parametrize("item", ["a name", None, Connection("c", lambda: 0, lambda value: None), torch.zeros(1)])
def test_a_group_takes_components_and_groups_only(item: Any) -> None:
    with pytest.raises(ComponentError, match=rf"'robot'.*got {type(item).__name__}"):
        Group("robot", [item])


def test_a_connection_hands_the_value_of_the_getter_to_the_setter(robot: Robot) -> None:
    command = torch.zeros(1, 3)

    def set_command(value: torch.Tensor) -> None:
        command[:] = value

    connection = Connection("cmd", getter=lambda: robot.position * 2, setter=set_command)
    assert connection.name == "cmd"
    assert command.tolist() == [[0.0, 0.0, 0.0]]
    connection.write()
    assert command.tolist() == [[2.0, 4.0, 6.0]]


def test_a_connection_asks_for_the_value_anew_at_every_write() -> None:
    source, written = iter([1, 2, 3]), list[int]()
    connection = Connection("count", lambda: next(source), written.append)
    connection.write()
    connection.write()
    assert written == [1, 2]


@pytest.mark.parametrize(("getter", "setter"), [(None, print), (print, None), (torch.zeros(1), torch.zeros(1))])
def test_a_connection_needs_two_callables(getter: Any, setter: Any) -> None:
    with pytest.raises(ComponentError, match=r"Connection\('cmd'\) needs two callables"):
        Connection("cmd", getter, setter)
