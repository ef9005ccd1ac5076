"""What a discovery finds in environments whose components were registered by hand: the same, or what serves as well."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import exploy
from exploy.demo.cart_pole import CartPole
from exploy.demo.exportable import ExportableCartPole
from exploy.environment.actor import add_actor_memory
from exploy.environment.components import Input, Memory, Output
from exploy.environment.exportable_environment import ExportableEnvironment
from tests.support import tutorial
from tests.support.builds import BUILDS, Body, build
from tests.support.camera_robots import CameraPolicy, CameraRobot, GymCameraRobot, PixelPolicy, TensorDictRobot
from tests.support.classic_control import TorchCartPole, TorchPendulum
from tests.support.discovery_traps.coverage import addresses
from tests.support.environments import assert_agrees, make_actor
from tests.support.pd_robots import ROBOTS, robot_and_actor
from tests.support.robot import Robot
from tests.support.walking import Cached, GymReacher, ResetsWhenAsked, Resettable, Walking

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")

Made = tuple[ExportableEnvironment, torch.nn.Module]
Make = Callable[[], Made]


def demo() -> Made:
    env = ExportableCartPole(CartPole())
    return env, make_actor(env.empty_actor_observations().shape[-1], 1)


def with_actor(kind: Callable[[], Any]) -> Make:
    """The environment with a small network."""

    def make() -> Made:
        env = kind()
        width = env.empty_actor_observations().shape[-1]
        return env, make_actor(width, env.empty_actions().shape[-1])

    return make


def tutorial_case(kind: type[Any] = tutorial.Environment, is_recurrent: bool = False) -> Made:
    """An environment of the tutorial, registered as there."""
    env = tutorial.ExportableEnv(kind(tutorial.DataSource()))
    source, manager = env.env.data_source, env.context_manager()
    manager.add_components([Input("foo", lambda: source.foo), Input("bar", lambda: source.bar)])
    manager.add_components([Input("baz", lambda: source.baz), Memory("actions", lambda: env.env._actions)])
    manager.add_component(Output("out", lambda: env.env._output))
    torch.manual_seed(0)
    actor = (tutorial.RNNActor if is_recurrent else tutorial.Actor)(env.env.num_obs, env.env.num_act)
    if is_recurrent:
        actor(env.compute_observations())  # it has no state before its first step
        add_actor_memory(manager, actor.get_state)
    return env, actor


CASES: dict[str, Make] = {
    "demo": demo,
    **{kind.__name__: with_actor(kind) for kind in (Robot, TorchCartPole, TorchPendulum, Walking, Resettable)},
    **{kind.__name__: with_actor(kind) for kind in (Cached, ResetsWhenAsked, GymReacher)},
    **{f"body of {kind.__name__}": with_actor(partial(build, kind, Body)) for kind in BUILDS},
    **{f"PD robot {number}": partial(robot_and_actor, robot) for number, robot in enumerate(ROBOTS)},
    "tutorial": tutorial_case,
    "tutorial, with a module": partial(tutorial_case, tutorial.EnvironmentWithTorchModule),
    "tutorial, recurrent": partial(tutorial_case, is_recurrent=True),
    "camera": lambda: (CameraRobot(), CameraPolicy()),
    "tensordict": lambda: (TensorDictRobot(), CameraPolicy()),
    "gymnasium camera": lambda: (GymCameraRobot(), PixelPolicy()),
}

DIFFERENCES = {
    "TorchCartPole": dict.fromkeys(("x", "x_dot", "theta", "theta_dot"), "as a part of others"),  # of the whole state
}
"""What is not found as it was registered by hand, by case: how it is found instead."""

DECISIONS = {"demo": {"env._env.command": "input"}}  # only resets draw it


@pytest.mark.matrix(1)
@pytest.mark.parametrize("case", CASES)
def test_a_discovered_registration_is_checked_exported_and_verified(case: str, tmp_path: Path) -> None:
    env, actor = stripped(*CASES[case]())
    result = exploy.discover(env, actor, decisions=DECISIONS.get(case))
    assert result.ok, str(result)
    result.register(env, actor)
    assert exploy.check_environment(env, actor).ok
    assert_agrees(env, actor, tmp_path, steps=60)


@pytest.mark.matrix(1)
@pytest.mark.parametrize("case", CASES)
def test_what_was_registered_by_hand_is_found(case: str) -> None:
    env, actor = CASES[case]()
    manager = env.context_manager()
    by_hand = list(manager.get_input_components())
    found = exploy.discover(*stripped(env, actor), decisions=DECISIONS.get(case))
    found.register(env, actor)
    differences = {item.name: told for item in by_hand if (told := difference(item, manager.get_input_components()))}
    assert differences == DIFFERENCES.get(case, {}), str(found)


def stripped(env: ExportableEnvironment, actor: torch.nn.Module) -> Made:
    """The environment with its Outputs alone."""
    manager = env.context_manager()
    for item in manager.get_input_components():
        manager.remove_component(item.name)
    return env, actor


def difference(by_hand: Input, found: list[Input]) -> str:
    """How a component is found instead; empty if it is found alike."""
    wanted, values = addresses(by_hand.fetch()), [(item, item.fetch()) for item in found]
    if any(addresses(value) == wanted and type(item) is type(by_hand) for item, value in values):
        return ""
    alike = [addresses(value) for item, value in values if isinstance(item, Memory) == isinstance(by_hand, Memory)]
    if wanted <= set().union(*alike):
        return "as a part of others" if len(wanted) else ""
    return "not" if not wanted & set().union(*(addresses(value) for _, value in values)) else "in another way"
