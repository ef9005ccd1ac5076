"""The objects of an mjlab task are all found: kernels of warp do not fill the walk."""

import pytest

from exploy.live.object_graph import MAX_OBJECTS, walk
from exploy.live.roots import live_objects
from tests.support.environments import make_actor
from tests.support.function_runs import CallingFunction
from tests.support.mjlab_functions import calls, functions

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library and of warp


def test_the_syntax_trees_of_kernels_are_not_walked():
    term = next(function for function in functions() if function.name == "base_ang_vel")
    env = CallingFunction(calls(term)[0])
    found = list(walk(live_objects(env, make_actor(2)), closures=True))
    assert len(found) < MAX_OBJECTS / 10
    assert any(item.attr_path.endswith("sim._wp_data.qpos") for item in found)
