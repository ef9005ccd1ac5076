"""ContextManager: the components of an environment, their names and their order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exploy.errors import ComponentError, DuplicateNameError, ReservedNameError
from exploy.exporter.core import components as components_module
from exploy.exporter.core import context_manager as context_manager_module
from exploy.exporter.core.components import Connection, Group, Input, Memory, Output
from exploy.exporter.core.context_manager import ContextManager

Item = Input | Output | Connection


def tensor() -> torch.Tensor:
    return torch.zeros(1, 2)


def input_(name: str, metadata: Any = None) -> Input:
    return Input(name, tensor, metadata)


def output(name: str, metadata: Any = None) -> Output:
    return Output(name, tensor, metadata)


def memory(name: str) -> Memory:
    return Memory(name, tensor)


def connection(name: str) -> Connection:
    return Connection(name, tensor, lambda value: None)


@pytest.fixture
def manager() -> ContextManager:
    return ContextManager()


@dataclass(frozen=True)
class Contents:
    """The complete content of a manager."""

    inputs: list[str]
    outputs: list[str]
    memories: list[str]
    connections: list[str]
    metadata: dict[str, Any]

    @classmethod
    def of(cls, manager: ContextManager) -> "Contents":
        return cls(
            manager.get_input_names(),
            manager.get_output_names(),
            [item.name for item in manager.get_memory_components()],
            [item.name for item in manager.get_connection_components()],
            manager.metadata,
        )


NOTHING = Contents([], [], [], [], {})


def assert_refused_as_duplicate(action: Callable[[], None], name: str) -> None:
    """The error is an AssertionError and a KeyError, as documented, and its message is a readable sentence."""
    with pytest.raises(DuplicateNameError) as caught:
        action()
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, KeyError)
    message = str(caught.value)
    assert name in message
    assert message.endswith(".")
    assert not message.startswith(('"', "'"))


# -- components and their order -------------------------------------------------------------------------------


def test_a_new_manager_is_empty(manager: ContextManager) -> None:
    assert Contents.of(manager) == NOTHING
    assert manager.get_inputs() == {}
    assert manager.get_outputs() == {}
    assert manager.modules == ()


def test_components_stay_in_the_order_in_which_they_were_added(manager: ContextManager) -> None:
    manager.add_component(input_("z"))
    manager.add_components([memory("m"), output("y"), connection("c"), input_("a")])
    manager.add_group(Group("g", [output("x"), input_("b"), memory("n")]))
    manager.add_component(input_("last"))
    assert manager.get_input_names() == ["z", "memory.m.in", "a", "g.b", "memory.g.n.in", "last"]
    assert manager.get_output_names() == ["memory.m.out", "y", "g.x", "memory.g.n.out"]


def test_each_kind_can_be_asked_for(manager: ContextManager) -> None:
    i, o, m, c = input_("i"), output("o"), memory("m"), connection("c")
    manager.add_components([i, o, m, c])
    assert manager.get_input_components() == [i, m]
    assert manager.get_output_components() == [o, m]
    assert manager.get_memory_components() == [m]
    assert manager.get_connection_components() == [c]


def test_lists_handed_out_are_copies(manager: ContextManager) -> None:
    manager.add_components([memory("m"), connection("c")])
    for handed_out in (
        manager.get_input_components(),
        manager.get_output_components(),
        manager.get_memory_components(),
        manager.get_connection_components(),
        manager.get_input_names(),
        manager.get_output_names(),
    ):
        handed_out.clear()
    assert Contents.of(manager) == Contents(["memory.m.in"], ["memory.m.out"], ["m"], ["c"], {})


def test_components_may_come_from_a_generator(manager: ContextManager) -> None:
    manager.add_components(input_(name) for name in ("a", "b"))
    assert manager.get_input_names() == ["a", "b"]


def test_the_components_can_be_imported_beside_the_manager() -> None:
    for name in ("Input", "Output", "Memory", "Group", "Connection"):
        assert getattr(context_manager_module, name) is getattr(components_module, name)


# -- groups ---------------------------------------------------------------------------------------------------


def test_ports_of_a_group_are_called_group_dot_item(manager: ContextManager) -> None:
    item, result, state = input_("pos"), output("target"), memory("filter")
    manager.add_group(Group("robot", [item, result, state]))
    assert item.input_name == "robot.pos"
    assert result.output_name == "robot.target"
    assert state.input_name == "memory.robot.filter.in"
    assert state.output_name == "memory.robot.filter.out"


def test_ports_of_nested_groups_have_all_names(manager: ContextManager) -> None:
    deepest = Group("inner", [input_("pos"), memory("filter")])
    manager.add_group(Group("outer", [Group("middle", [deepest]), input_("pos")]))
    assert manager.get_input_names() == [
        "outer.middle.inner.pos",
        "memory.outer.middle.inner.filter.in",
        "outer.pos",
    ]
    assert manager.get_output_names() == ["memory.outer.middle.inner.filter.out"]


def test_a_name_with_dots_is_the_same_name_as_that_of_groups(manager: ContextManager) -> None:
    manager.add_component(input_("outer.inner.pos"))
    group = Group("outer", [Group("inner", [input_("pos")])])
    assert_refused_as_duplicate(lambda: manager.add_group(group), "outer.inner.pos")


def test_an_item_may_be_called_like_one_of_another_group(manager: ContextManager) -> None:
    manager.add_component(input_("pos"))
    manager.add_group(Group("left", [input_("pos")]))
    manager.add_group(Group("right", [input_("pos"), Group("left", [output("pos")])]))
    assert manager.get_input_names() == ["pos", "left.pos", "right.pos"]
    assert manager.get_output_names() == ["right.left.pos"]


def test_an_empty_group_keeps_its_metadata(manager: ContextManager) -> None:
    manager.add_group(Group("robot", [], metadata={"joint_names": ["hip"]}))
    assert Contents.of(manager) == Contents([], [], [], [], {"robot": {"joint_names": ["hip"]}})


def test_metadata_goes_by_full_name_and_only_where_there_is_some(manager: ContextManager) -> None:
    manager.add_components([input_("a", {"unit": "m"}), output("b"), memory("m")])
    inner = Group("inner", [input_("c", 3), output("d")], metadata=["inner"])
    manager.add_group(Group("outer", [inner, output("e", {})]))
    assert manager.metadata == {
        "a": {"unit": "m"},
        "outer.inner.c": 3,
        "outer.inner": ["inner"],
        "outer.e": {},
    }


# -- lookup ---------------------------------------------------------------------------------------------------


def test_a_component_is_found_by_its_full_name(manager: ContextManager) -> None:
    plain, nested, state = input_("plain"), output("pos"), memory("filter")
    manager.add_component(plain)
    manager.add_group(Group("outer", [Group("inner", [nested, state])]))
    assert manager.get_component_by_name("plain") is plain
    assert manager.get_component_by_name("outer.inner.pos") is nested
    assert manager.get_component_by_name("outer.inner.filter") is state


def test_a_component_is_found_by_a_short_name_that_only_one_has(manager: ContextManager) -> None:
    nested = output("pos")
    manager.add_group(Group("outer", [Group("inner", [nested])]))
    assert manager.get_component_by_name("pos") is nested


def test_a_short_name_that_two_have_finds_neither(manager: ContextManager) -> None:
    manager.add_group(Group("left", [input_("pos")]))
    manager.add_group(Group("right", [input_("pos")]))
    assert manager.get_component_by_name("pos") is None


def test_a_full_name_goes_before_short_names(manager: ContextManager) -> None:
    plain = input_("pos")
    manager.add_group(Group("left", [input_("pos")]))
    manager.add_component(plain)
    assert manager.get_component_by_name("pos") is plain


def test_an_unknown_name_finds_nothing(manager: ContextManager) -> None:
    manager.add_group(Group("robot", [input_("pos")]))
    manager.add_component(connection("c"))
    for name in ("", "vel", "robot", "robot.vel", "robot.", "c"):
        assert manager.get_component_by_name(name) is None


# -- duplicate names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [input_, output, memory, connection])
@pytest.mark.parametrize("second", [input_, output, memory, connection])
def test_components_and_connections_share_one_set_of_names(
    manager: ContextManager, first: Callable[[str], Item], second: Callable[[str], Item]
) -> None:
    manager.add_component(first("speed"))
    before = Contents.of(manager)
    assert_refused_as_duplicate(lambda: manager.add_component(second("speed")), "'speed'")
    assert Contents.of(manager) == before


@pytest.mark.parametrize("kind", [input_, output, memory, connection])
def test_a_group_and_a_component_cannot_have_the_same_name(kind: Callable[[str], Item]) -> None:
    group_first, component_first = ContextManager(), ContextManager()
    group_first.add_group(Group("robot", []))
    assert_refused_as_duplicate(lambda: group_first.add_component(kind("robot")), "'robot'")
    component_first.add_component(kind("robot"))
    assert_refused_as_duplicate(lambda: component_first.add_group(Group("robot", [])), "'robot'")


def test_two_groups_cannot_have_the_same_name(manager: ContextManager) -> None:
    manager.add_group(Group("robot", [input_("pos")]))
    assert_refused_as_duplicate(lambda: manager.add_group(Group("robot", [input_("vel")])), "'robot'")


def test_names_given_twice_in_one_call_are_refused(manager: ContextManager) -> None:
    assert_refused_as_duplicate(lambda: manager.add_components([input_("a"), output("a")]), "'a'")
    assert_refused_as_duplicate(lambda: manager.add_components([connection("c"), connection("c")]), "'c'")
    assert_refused_as_duplicate(lambda: manager.add_group(Group("g", [input_("a"), memory("a")])), "'g.a'")
    same_name = Group("g", [input_("a"), Group("a", [])])
    assert_refused_as_duplicate(lambda: manager.add_group(same_name), "'g.a'")
    assert Contents.of(manager) == NOTHING


def test_the_same_component_cannot_be_added_twice(manager: ContextManager) -> None:
    item = input_("pos")
    manager.add_component(item)
    assert_refused_as_duplicate(lambda: manager.add_component(item), "pos")
    assert_refused_as_duplicate(lambda: manager.add_group(Group("robot", [item])), "robot.pos")
    assert item.input_name == "pos"
    assert manager.get_input_names() == ["pos"]


def test_the_same_component_cannot_be_in_two_places_of_one_group(manager: ContextManager) -> None:
    item = input_("pos")
    both = Group("robot", [item, Group("inner", [item])])
    assert_refused_as_duplicate(lambda: manager.add_group(both), "pos")
    assert Contents.of(manager) == NOTHING
    assert item.input_name == "pos"


def test_the_same_group_or_connection_cannot_be_added_twice(manager: ContextManager) -> None:
    group, link = Group("robot", [input_("pos")]), connection("cmd")
    manager.add_group(group)
    manager.add_component(link)
    assert_refused_as_duplicate(lambda: manager.add_group(group), "'robot'")
    assert_refused_as_duplicate(lambda: manager.add_group(Group("again", [group])), "robot.pos")
    assert_refused_as_duplicate(lambda: manager.add_component(link), "'cmd'")


def test_uniqueness_of_names_can_be_asked_for(manager: ContextManager) -> None:
    manager.add_group(Group("robot", [input_("pos")]))
    manager.add_components([output("out"), memory("actions"), connection("cmd")])
    manager.assert_unique_name("pos")
    for name in ("robot", "robot.pos", "out", "actions", "cmd"):
        assert_refused_as_duplicate(lambda name=name: manager.assert_unique_name(name), f"'{name}'")  # type: ignore[misc]


def test_uniqueness_of_ids_can_be_asked_for(manager: ContextManager) -> None:
    item, other = input_("pos"), input_("vel")
    manager.add_component(item)
    manager.assert_unique_id(other.id)
    assert_refused_as_duplicate(lambda: manager.assert_unique_id(item.id), "'pos'")
    assert_refused_as_duplicate(lambda: manager.assert_unique_id(item.id, "new_name"), "new_name")


# -- names that the file format reserves ----------------------------------------------------------------------

RESERVED = ["actions", "obs", "ctx.step_count", "ctx.anything", "memory.x", "memory.actions.in"]


@pytest.mark.parametrize("kind", [input_, output])
@pytest.mark.parametrize("name", RESERVED)
def test_inputs_and_outputs_cannot_take_the_names_of_the_format(
    manager: ContextManager, kind: Callable[[str], Item], name: str
) -> None:
    with pytest.raises(ReservedNameError, match=name) as caught:
        manager.add_component(kind(name))
    assert "the file format reserves" in str(caught.value)
    assert Contents.of(manager) == NOTHING


def test_a_group_cannot_lead_into_the_names_of_the_format(manager: ContextManager) -> None:
    for group in (Group("ctx", [input_("step_count")]), Group("memory", [Group("m", [output("x")])])):
        with pytest.raises(ReservedNameError, match=group.name):
            manager.add_group(group)
    assert Contents.of(manager) == NOTHING


@pytest.mark.parametrize("name", RESERVED)
def test_a_memory_may_have_any_name(manager: ContextManager, name: str) -> None:
    manager.add_component(memory(name))
    assert manager.get_input_names() == [f"memory.{name}.in"]
    assert manager.get_output_names() == [f"memory.{name}.out"]


@pytest.mark.parametrize("name", ["actions.raw", "observations", "ctx", "ctx_count", "memory", "memory_x", "robot.obs"])
def test_names_that_only_look_like_those_of_the_format_are_free(manager: ContextManager, name: str) -> None:
    manager.add_component(input_(name))
    assert manager.get_input_names() == [name]


def test_inside_a_group_actions_and_obs_are_ordinary_names(manager: ContextManager) -> None:
    manager.add_group(Group("robot", [input_("obs"), output("actions")]))
    assert manager.get_input_names() == ["robot.obs"]
    assert manager.get_output_names() == ["robot.actions"]


# -- all or nothing -------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "d", "g", "g.a", "g.h", "g.h.a", "obs", "memory.x"])
items = st.builds(lambda kind, name: kind(name), st.sampled_from([input_, output, memory, connection]), names)
group_members = st.recursive(
    st.builds(lambda kind, name: kind(name), st.sampled_from([input_, output, memory]), names),
    lambda inner: st.builds(Group, st.sampled_from(["g", "h"]), st.lists(inner, max_size=3)),
    max_leaves=6,
)
groups = st.builds(Group, st.sampled_from(["g", "h"]), st.lists(group_members, max_size=4), st.just({"some": 1}))
reproducible = settings(derandomize=True, deadline=None, max_examples=150)


def leaves(group: Group) -> list[Input | Output]:
    found: list[Input | Output] = []
    for item in group.items:
        found += leaves(item) if isinstance(item, Group) else [item]
    return found


def all_names(manager: ContextManager) -> list[str]:
    components = {id(item): item for item in manager.get_input_components() + manager.get_output_components()}
    return [item.name for item in components.values()] + [item.name for item in manager.get_connection_components()]


@reproducible
@given(st.lists(st.lists(items, max_size=4), max_size=4))
def test_either_all_components_of_a_call_are_added_or_none(calls: list[list[Item]]) -> None:
    manager = ContextManager()
    for call in calls:
        before, count = Contents.of(manager), len(all_names(manager))
        wanted = [item.name for item in call]
        reserved = any(not isinstance(i, Memory | Connection) and i.name in ("obs", "memory.x") for i in call)
        clash = len({*wanted, *all_names(manager)}) < count + len(wanted)
        try:
            manager.add_components(call)
        except (DuplicateNameError, ReservedNameError):
            assert clash or reserved
            assert Contents.of(manager) == before
        else:
            assert not clash
            assert not reserved
            assert len(all_names(manager)) == count + len(wanted)
            assert set(wanted) <= set(all_names(manager))
        assert [item.name for item in call] == wanted
    assert len(set(all_names(manager))) == len(all_names(manager))


@reproducible
@given(st.lists(groups, max_size=3), st.lists(items, max_size=2))
def test_either_a_whole_group_is_added_or_nothing_of_it(additions: list[Group], existing: list[Item]) -> None:
    manager = ContextManager()
    for item in existing:
        try:
            manager.add_component(item)
        except (DuplicateNameError, ReservedNameError):
            continue
    for group in additions:
        before, count = Contents.of(manager), len(all_names(manager))
        short = [item.name for item in leaves(group)]
        try:
            manager.add_group(group)
        except (DuplicateNameError, ReservedNameError):
            assert Contents.of(manager) == before
            assert [item.name for item in leaves(group)] == short
        else:
            assert len(all_names(manager)) == count + len(short)
            for item, name in zip(leaves(group), short, strict=True):
                assert manager.get_component_by_name(item.name) is item
                assert item.name.startswith(f"{group.name}.")
                assert item.name.endswith(f".{name}")
            assert manager.metadata[group.name] == {"some": 1}
    assert len(set(all_names(manager))) == len(all_names(manager))


def test_what_was_refused_can_be_added_after_the_clash_is_gone(manager: ContextManager) -> None:
    pos = input_("pos")
    with pytest.raises(DuplicateNameError):
        manager.add_group(Group("robot", [pos, Group("arm", [input_("vel"), output("vel")])]))
    manager.add_group(Group("robot", [pos, Group("arm", [input_("vel")])]))
    assert manager.get_input_names() == ["robot.pos", "robot.arm.vel"]


def test_a_component_from_a_refused_group_keeps_its_plain_name(manager: ContextManager) -> None:
    pos = input_("pos")
    with pytest.raises(ReservedNameError):
        manager.add_group(Group("ctx", [memory("fine"), pos]))
    manager.add_component(pos)
    assert manager.get_input_names() == ["pos"]


def test_a_generator_that_fails_half_way_leaves_nothing_behind(manager: ContextManager) -> None:
    def failing() -> Iterator[Input]:
        yield input_("a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        manager.add_components(failing())
    assert Contents.of(manager) == NOTHING


@pytest.mark.parametrize("item", ["a name", None, torch.zeros(1)])
def test_what_is_no_component_is_refused_and_nothing_is_added(manager: ContextManager, item: Any) -> None:
    with pytest.raises(ComponentError, match=f"got {type(item).__name__}"):
        manager.add_components([input_("a"), item])
    with pytest.raises(ComponentError, match=f"got {type(item).__name__}"):
        manager.add_group(item)
    assert Contents.of(manager) == NOTHING


def test_groups_and_components_are_not_mistaken_for_each_other(manager: ContextManager) -> None:
    with pytest.raises(ComponentError, match=r"got Group.*add_group"):
        manager.add_component(Group("robot", []))  # type: ignore[arg-type]
    with pytest.raises(ComponentError, match="takes a Group, got Input"):
        manager.add_group(input_("a"))  # type: ignore[arg-type]


# -- data ------------------------------------------------------------------------------------


class Robot:
    def __init__(self) -> None:
        self.pos = torch.tensor([[1.0, 2.0]])
        self.actions = torch.tensor([[3.0]])
        self.target = torch.tensor([[4.0]])


@pytest.fixture
def robot() -> Robot:
    return Robot()


@pytest.fixture
def filled(robot: Robot) -> ContextManager:
    manager = ContextManager()
    manager.add_group(Group("robot", [Input("pos", lambda: robot.pos)]))
    manager.add_components([Memory("actions", lambda: robot.actions), Output("target", lambda: robot.target)])
    return manager


def test_inputs_and_outputs_are_given_by_port_name_as_the_live_tensors(filled: ContextManager, robot: Robot) -> None:
    inputs, outputs = filled.get_inputs(), filled.get_outputs()
    assert list(inputs) == filled.get_input_names() == ["robot.pos", "memory.actions.in"]
    assert list(outputs) == filled.get_output_names() == ["memory.actions.out", "target"]
    assert inputs["robot.pos"] is robot.pos
    assert inputs["memory.actions.in"] is robot.actions
    assert outputs["memory.actions.out"] is robot.actions
    assert outputs["target"] is robot.target


def test_as_numpy_they_are_copies(filled: ContextManager, robot: Robot) -> None:
    inputs, outputs = filled.get_inputs(to_numpy=True), filled.get_outputs(to_numpy=True)
    for value in (robot.pos, robot.actions, robot.target):
        value[:] = -1.0
    assert all(isinstance(value, np.ndarray) for value in (*inputs.values(), *outputs.values()))
    assert {name: value.tolist() for name, value in inputs.items()} == {
        "robot.pos": [[1.0, 2.0]],
        "memory.actions.in": [[3.0]],
    }
    assert {name: value.tolist() for name, value in outputs.items()} == {
        "memory.actions.out": [[3.0]],
        "target": [[4.0]],
    }


def test_inputs_change_only_when_they_are_read_and_outputs_at_once(filled: ContextManager, robot: Robot) -> None:
    filled.read_inputs()
    robot.pos, robot.actions, robot.target = robot.pos + 10, robot.actions + 10, robot.target + 10
    assert filled.get_inputs()["robot.pos"].tolist() == [[1.0, 2.0]]
    assert filled.get_inputs()["memory.actions.in"].tolist() == [[3.0]]
    assert filled.get_outputs()["memory.actions.out"].tolist() == [[13.0]]
    assert filled.get_outputs()["target"].tolist() == [[14.0]]
    filled.read_inputs()
    assert filled.get_inputs()["robot.pos"].tolist() == [[11.0, 12.0]]
    assert filled.get_inputs()["memory.actions.in"].tolist() == [[13.0]]


def test_reading_inputs_names_the_component_that_changed_its_shape(filled: ContextManager, robot: Robot) -> None:
    filled.read_inputs()
    robot.pos = torch.zeros(1, 5)
    with pytest.raises(ComponentError, match=r"robot\.pos"):
        filled.read_inputs()


def test_reading_inputs_does_not_ask_outputs(manager: ContextManager) -> None:
    def not_computed_yet() -> torch.Tensor:
        raise RuntimeError

    manager.add_components([input_("a"), Output("b", not_computed_yet)])
    manager.read_inputs()
    with pytest.raises(RuntimeError):
        manager.get_outputs()


def test_connections_are_written_in_the_order_in_which_they_were_added(manager: ContextManager) -> None:
    written: list[str] = []
    for name in ("z", "a", "m"):
        manager.add_component(Connection(name, lambda name=name: name, written.append))  # type: ignore[misc]
    manager.write_connections()
    manager.write_connections()
    assert written == ["z", "a", "m", "z", "a", "m"]


def test_a_connection_sees_what_the_one_before_it_wrote(manager: ContextManager) -> None:
    values = {"a": 1, "b": 0, "c": 0}
    manager.add_components(
        [
            Connection("ab", lambda: values["a"] + 1, lambda value: values.update(b=value)),
            Connection("bc", lambda: values["b"] + 1, lambda value: values.update(c=value)),
        ]
    )
    manager.write_connections()
    assert values == {"a": 1, "b": 2, "c": 3}


# -- modules --------------------------------------------------------------------------------------------------


def test_modules_are_kept_in_order_and_once_each(manager: ContextManager) -> None:
    first, second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    for module in (first, second, first):
        manager.add_module(module)
    assert manager.modules == (first, second)


def test_what_is_no_module_is_refused(manager: ContextManager) -> None:
    with pytest.raises(ComponentError, match=r"takes a torch\.nn\.Module, got function"):
        manager.add_module(tensor)  # type: ignore[arg-type]
    assert manager.modules == ()


def test_a_component_belongs_to_one_context_manager_only():
    first, second = ContextManager(), ContextManager()
    item = input_("pos")
    first.add_component(item)
    with pytest.raises(DuplicateNameError, match="already belongs to a context manager"):
        second.add_group(Group("robot", [item]))
    assert first.get_input_names() == ["pos"]
    assert second.get_input_names() == []


def test_registrations_are_undone_in_order_and_also_after_an_error():
    manager = ContextManager()
    first, second = Input("first", lambda: torch.zeros(1)), Input("second", lambda: torch.zeros(1))
    manager.add_components([first, second])

    def register_and_fail() -> None:
        manager.remove_component("first")
        manager.add_component(Memory("first", lambda: torch.zeros(1)))
        manager.add_component(Connection("copy", lambda: 0, lambda _: None))
        manager.add_group(Group("group", [Output("third", lambda: torch.zeros(1))]))
        manager.add_constant("gains", lambda: torch.zeros(1))
        manager.add_module(torch.nn.Identity())
        manager.add_stateless_actor(lambda: None)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), manager.registrations_undone():
        register_and_fail()
    assert manager.get_input_components() == [first, second] and not manager.get_output_components()
    assert not manager.get_connection_components() and not manager.get_constants()
    assert not manager.modules and not manager.stateless_actors
    manager.add_group(Group("group", [Output("third", lambda: torch.zeros(1))]))
