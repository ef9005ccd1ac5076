"""Long runs: environment and controller side by side, memories fed back by the controller alone."""

import collections
from typing import Any

import numpy as np
import pytest
import torch

from exploy.demo.cart_pole import CartPole
from exploy.demo.exportable import ExportableCartPole
from exploy.demo.policy import load_trained_actor
from exploy.environment.components import Group, Input, Memory, Output
from exploy.environment.tensor_copies import to_numpy
from exploy.exporter.core.actor import add_actor_memory
from exploy.runtime import Controller
from tests.support import tutorial
from tests.support.environments import make_actor
from tests.support.files import cart_pole_file, exported, robot_file
from tests.support.robot import Robot

TICKS = 10_000
TOLERANCE = 1e-4


class Traces:
    """Values of two sides over time, compared at the end, which is much faster than one by one."""

    def __init__(self) -> None:
        self._pairs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = collections.defaultdict(list)

    def add(self, name: str, got: np.ndarray, expected: np.ndarray) -> None:
        assert got.shape == expected.shape
        self._pairs[name].append((got, expected.copy()))

    def assert_close(self) -> None:
        assert self._pairs
        for name, pairs in self._pairs.items():
            got, expected = (np.stack(side) for side in zip(*pairs, strict=True))
            np.testing.assert_allclose(got, expected, atol=TOLERANCE, rtol=TOLERANCE, err_msg=name)


class SideBySide:
    """Ticks a controller whenever its environment has applied actions, and compares."""

    def __init__(self, env: Any, controller: Controller):
        self.env, self.controller, self.traces = env, controller, Traces()
        self.ticks = self.resets = 0
        self.actions: torch.Tensor | None = None
        env.register_evaluation_hooks(lambda: None, self.reset, self.tick)

    def reset(self) -> None:
        self.controller.reset()
        self.resets += 1

    def tick(self, sub_step: int) -> None:
        manager = self.env.context_manager()
        values = {item.input_name: to_numpy(item.fetch()) for item in manager.get_input_components()}
        got = self.controller.step({name: values[name] for name in self.controller.inputs})
        for item in manager.get_output_components():
            if item.output_name in got:
                self.traces.add(item.output_name, got[item.output_name], item.value_numpy)
        if sub_step == 0 and self.actions is not None:
            self.traces.add("actions", got["actions"], self.actions.numpy())
        self.ticks += 1

    @torch.no_grad()
    def run(self, actor: torch.nn.Module) -> None:
        observations = self.env.observations_reset()
        while self.ticks < TICKS:
            self.actions = actor(observations)
            observations, _ = self.env.step(self.actions)
        self.traces.assert_close()


def test_the_demo_agrees_over_many_ticks_and_resets() -> None:
    run = SideBySide(ExportableCartPole(CartPole(seed=3, episode_steps=150)), Controller.load(cart_pole_file()))
    run.run(load_trained_actor())
    assert run.ticks == TICKS and run.resets >= 5


@pytest.mark.parametrize("split", [True, False], ids=["two sessions", "one session"])
def test_the_robot_agrees_over_many_ticks_and_resets(split: bool) -> None:
    run = SideBySide(Robot(), Controller.load(robot_file(), split=split))
    run.run(make_actor(13, 3))
    assert run.ticks == TICKS and run.resets >= 20


@pytest.mark.matrix
@pytest.mark.parametrize("decimation", [1, 3])
def test_other_rates_agree_as_well(decimation: int) -> None:
    data = exported(Robot(decimation), make_actor(13, 3))
    run = SideBySide(Robot(decimation, reset_every=200), Controller.load(data))
    run.run(make_actor(13, 3))
    assert run.ticks >= TICKS and run.resets >= 5


# -- the tutorial's environments ------------------------------------------------------------------------------


def register(env: Any) -> None:
    """The components that the tutorial registers."""
    source = env.env.data_source
    env.context_manager().add_components(
        [
            Input("foo", lambda: source.foo),
            Output("out", lambda: env.env._output),
            Memory("actions", lambda: env.env._actions),
        ]
    )
    env.context_manager().add_group(
        Group("bar_baz_group", [Input("bar", lambda: source.bar), Input("baz", lambda: source.baz)])
    )


def plain() -> tuple[Any, torch.nn.Module]:
    env = tutorial.ExportableEnv(tutorial.Environment(tutorial.DataSource()))
    return env, tutorial.Actor(env.env.num_obs, env.env.num_act)


def with_module() -> tuple[Any, torch.nn.Module]:
    simulated = tutorial.EnvironmentWithTorchModule(tutorial.DataSource())
    env = tutorial.ExportableEnv(simulated)
    env.context_manager().add_module(simulated.module)
    return env, tutorial.Actor(env.env.num_obs, env.env.num_act)


def recurrent() -> tuple[Any, torch.nn.Module]:
    env = tutorial.ExportableEnv(tutorial.Environment(tutorial.DataSource()))
    actor = tutorial.RNNActor(env.env.num_obs, env.env.num_act)
    with torch.no_grad():
        actor(env.empty_actor_observations())
    actor.reset(torch.tensor([True]))
    add_actor_memory(env.context_manager(), actor.get_state)
    return env, actor


@pytest.mark.matrix
@pytest.mark.parametrize("make", [plain, with_module, recurrent])
def test_the_tutorials_environments_agree_over_many_ticks_and_resets(make: Any) -> None:
    torch.manual_seed(0)
    env, actor = make()
    register(env)
    controller = Controller.load(exported(env, actor))
    simulated, source = env.env, env.env.data_source
    inputs = {"foo": source.foo, "bar_baz_group.bar": source.bar, "bar_baz_group.baz": source.baz}
    traces = Traces()
    with torch.no_grad():
        for tick in range(TICKS):
            if tick % 4 == 0:
                if tick % 40 == 0:
                    source.reset()
                    simulated._actions.zero_()
                    controller.reset()
                    if hasattr(actor, "reset"):
                        actor.reset(torch.tensor([True]))
                actions = actor(simulated.compute_obs())
                simulated.process_actions(actions)
            simulated.apply_actions()
            got = controller.step({name: value.numpy() for name, value in inputs.items()})
            traces.add("out", got["out"], simulated._output.numpy())
            traces.add("actions", got["actions"], actions.numpy())
            source.step()
    traces.assert_close()
