"""An Input may be a call: a function of the environment that returns a new tensor each time."""

from pathlib import Path
from typing import Any

import pytest
import torch

import exploy
from exploy.capture.capture import capture
from exploy.diagnosis.finding import FindingKind
from exploy.diagnosis.pasting import paste
from exploy.environment.called_values import values_replaced
from exploy.errors import CaptureError, ComponentError
from exploy.exporter.core.components import Input
from tests.support.builds import BUILDS, Hooked, assert_sound, build, name_of
from tests.support.checking import check
from tests.support.environments import make_actor
from tests.support.getters import Callbacks, Getters, Simulator


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    assert_sound(build(kind, Getters), make_actor(4), tmp_path, steps=100)


def test_the_value_is_that_of_the_call():
    sim = Simulator()
    item = Input("q", call=(sim, "get_dofs_position"))
    assert torch.equal(item.fetch(), sim.get_dofs_position())
    sim.qpos += 1
    assert torch.equal(item.fetch(), sim.get_dofs_position())
    assert item.fetch().data_ptr() == item.fetch().data_ptr()


def test_while_calls_are_replaced_only_the_registered_call_returns_the_input():
    env = build(Hooked, Getters)
    sim, manager = env.body.sim, env.context_manager()
    manager.get_component_by_name("q").fetch().fill_(7.0)
    with manager.calls_replaced():
        assert torch.equal(sim.get_dofs_position([1, 0]), torch.full((1, 2), 7.0))
        assert torch.equal(sim.get_dofs_position(dofs=(1, 0)), torch.full((1, 2), 7.0))
        assert torch.equal(sim.get_dofs_position([0, 1]), torch.tensor([[0.1, 0.2]]))
        assert torch.equal(Simulator().get_dofs_position([1, 0]), torch.tensor([[0.2, 0.1]]))
    assert torch.equal(sim.get_dofs_position([1, 0]), torch.tensor([[0.2, 0.1]]))


def test_arguments_that_are_left_out_are_their_defaults():
    sim = Simulator()
    item = Input("q", call=(sim, "get_dofs_position", None))
    item.fetch().fill_(7.0)
    assert item.called_value is not None
    with values_replaced([item.called_value]):
        assert torch.equal(sim.get_dofs_position(), torch.full((1, 2), 7.0))


def test_afterwards_the_functions_are_as_before():
    env = build(Hooked, Getters)
    codes = Simulator.get_dofs_position.__code__, Simulator.vel.fget.__code__  # type: ignore[attr-defined]
    capture(env, make_actor(4).eval())

    def fail() -> torch.Tensor:
        raise CaptureError("as planned")

    env.body.observe = fail
    with pytest.raises(CaptureError, match="as planned"):
        capture(env, make_actor(4).eval())
    assert codes == (Simulator.get_dofs_position.__code__, Simulator.vel.fget.__code__)  # type: ignore[attr-defined]
    assert torch.equal(env.body.sim.vel, torch.tensor([[0.3, -0.1]]))


@pytest.mark.expensive
def test_the_check_suggests_the_call_and_the_line_mends_the_environment(tmp_path: Path):
    env, actor = build(Hooked, Callbacks), make_actor(4)
    diagnosis = check(env, actor)
    found = {item.tensor: item.suggestion for item in diagnosis.findings if item.kind is FindingKind.DETACHED}
    assert not diagnosis.ok
    assert found == {
        "q": 'Input(name="q", call=(env.body.sim, "get_dofs_position", [1, 0]))',
        "all": 'Input(name="all", call=(env.body.sim, "get_dofs_position"))',
        "v": 'Input(name="v", call=(env.body.sim, "vel"))',
    }
    for suggestion in found.values():
        paste(suggestion, env, actor)
    assert check(env, actor).ok
    exploy.export(env, actor, tmp_path / "policy.onnx")


def test_what_is_no_python_function_is_refused():
    with pytest.raises(ComponentError, match="no method or property that is written in Python"):
        Input("q", call=(torch.zeros(2), "clone"))
    with pytest.raises(ComponentError, match="no method or property"):
        Input("q", call=(Simulator(), "qpos"))
    with pytest.raises(ComponentError, match="such as"):
        Input("q", call="get_dofs_position")  # type: ignore[arg-type]
    with pytest.raises(ComponentError, match="not both"):
        Input("q", lambda: torch.zeros(1), call=(Simulator(), "vel"))
    with pytest.raises(ComponentError, match="needs a callback"):
        Input("q")


def test_a_call_that_returns_no_tensor_is_refused():
    class Arrays(Simulator):
        def get_qpos(self):
            return self.qpos.copy()

    with pytest.raises(ComponentError, match=r"Arrays.get_qpos must return a torch.Tensor, got ndarray"):
        Input("q", call=(Arrays(), "get_qpos")).fetch()
