"""Suggested names are short, free, and fit for a port."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exploy.diagnosis.suggestion import assignment, component_line, name_from_attr_path
from exploy.environment.components import validated_name

reproducible = settings(derandomize=True, deadline=None, max_examples=200)


@pytest.mark.parametrize(
    ("path", "taken", "name"),
    [
        ("env._data_source.baz", (), "baz"),
        ("env._data_source.baz", ("baz",), "data_source_baz"),
        ("env.terms['joint_pos']._scale", ("scale",), "joint_pos_scale"),
        ("env.history[0]", (), "history_0"),
        ("env.robots[1].pos", ("pos",), "robots_1_pos"),
        ("env.state[:, 2:3]", (), "state_2_3"),
        ("env.obs", (), "env_obs"),
        ("env.x", ("x", "env_x"), "x_2"),
    ],
)
def test_a_name_is_as_short_as_it_can_be(path, taken, name):
    assert name_from_attr_path(path, taken) == name


def test_only_a_memory_may_be_called_as_a_port_of_the_file():
    assert name_from_attr_path("env.actions", (), "Memory") == "actions"
    assert name_from_attr_path("env.actions", (), "Output") == "env_actions"


words = st.text(st.sampled_from("abz_09é'[] ."), min_size=1, max_size=8)


@reproducible
@given(st.lists(words, max_size=4), st.sets(words, max_size=4))
def test_a_name_is_free_and_fit_for_a_port_whatever_the_path(parts, taken):
    name = name_from_attr_path("env" + "".join(f"[{part!r}]" for part in parts), taken)
    assert name not in taken
    assert validated_name(name, "Input") == name


def test_lines_are_python():
    assert component_line("Input", "a", "env.a") == 'Input(name="a", get_from_env_cb=lambda: env.a)'
    assert assignment("env.robot._flag", "value") == 'setattr(env.robot, "_flag", value)'
    assert assignment("env.flags['a']", "value") == "env.flags.__setitem__('a', value)"
