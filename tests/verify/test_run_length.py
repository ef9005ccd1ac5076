"""How long an evaluation is: a number of policy steps, or of episodes with at most so many steps each."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from exploy.errors import InvalidEnvironmentError
from exploy.exporter.core.actor import ExportableActor, add_actor_memory
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.session_wrapper import SessionWrapper
from tests.support.environments import TestEnvironment, export, make_actor

pytestmark = pytest.mark.expensive

NEVER = 10_000


class Walking(TestEnvironment):
    """A PD law at sub-steps and the last actions as state; with hooks, and without `reset()`."""

    num_observations = 4

    def __init__(self, reset_every: int = NEVER) -> None:
        super().__init__(decimation=2, reset_every=reset_every)
        self.position = torch.tensor([[0.1, 0.2]])
        self.torque = torch.zeros(1, 2)
        self.last = torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("position", lambda: self.position),
                Output("torque", lambda: self.torque),
                Memory("last", lambda: self.last),
            ]
        )

    def observe(self):
        return torch.cat([self.position, self.last], -1)

    def process_actions(self, actions):
        self.targets[:] = 0.5 * actions
        self.last[:] = actions

    def apply_actions(self):
        self.torque[:] = 4.0 * (self.targets - self.position)

    def move(self):
        self.position += 0.02 * self.torque

    def restart(self):
        self.position[:] = 0.3
        self.last[:] = 0.0


class Resettable(Walking):
    """The same with the optional `reset()`, and without hooks."""

    def __init__(self, reset_every: int = NEVER) -> None:
        super().__init__(reset_every)
        self.resets = 0

    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        pass

    def reset(self):
        self.resets += 1
        self._steps = 0
        self.restart()


class ResettableWithHooks(Resettable):
    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        self._hooks = (update, reset, evaluate_substep)


class Pushed(gymnasium.Env[np.ndarray, np.ndarray]):
    """A mass in the manner of gymnasium."""

    def __init__(self) -> None:
        self.state = np.full((1, 2), 0.1, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        self.state[:] = 0.3
        return self.state, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.state += 0.02 * action
        return self.state, 0.0, False, False, {}


class OfGymnasium(Resettable):
    """The simulator is an environment of gymnasium, whose `reset()` the adapter calls."""

    def __init__(self, reset_every: int = NEVER) -> None:
        super().__init__(reset_every)
        self.simulator = Pushed()
        self.position = torch.from_numpy(self.simulator.state)

    def move(self):
        self.simulator.step(self.torque.numpy())

    def restart(self):
        self.simulator.reset()
        self.last[:] = 0.0


RESETTABLE = pytest.mark.parametrize("kind", [Resettable, ResettableWithHooks, OfGymnasium])
ALL = pytest.mark.parametrize("kind", [Walking, Resettable, ResettableWithHooks, OfGymnasium])


def exported(env: Walking, folder: Path, actor: torch.nn.Module | None = None) -> SessionWrapper:
    start = {"last": torch.zeros(1, 2)}
    return export(env, actor if actor is not None else make_actor(4), folder, initial_memory=start)


def run(env: Walking, session: SessionWrapper, capsys: pytest.CaptureFixture[str], **length: Any) -> tuple[bool, int]:
    """Whether the file agrees, and how many policy steps were made."""
    capsys.readouterr()
    ok, observations = evaluate(env, env.context_manager(), session, pause_on_failure=False, **length)
    assert observations.shape == (1, 4)
    headline = next(line for line in capsys.readouterr().out.splitlines() if "policy steps" in line)
    return ok, int(headline.partition("over ")[2].partition(" policy steps")[0])


# -- episodes ---------------------------------------------------------------------------------------------------------


@pytest.mark.matrix(3)
@ALL
@pytest.mark.parametrize("reset_every", [1, 5])
def test_episodes_end_when_the_environment_is_reset(kind, reset_every, tmp_path: Path, capsys):
    env = kind(reset_every)
    session = exported(env, tmp_path)
    assert run(env, session, capsys, num_episodes=3, max_episode_steps=100) == (True, 3 * reset_every)
    assert env._steps == 3 * reset_every
    assert not isinstance(env, Resettable) or env.resets == 0


def test_without_reset_an_episode_that_is_long_enough_counts_and_goes_on(tmp_path: Path, capsys):
    env, alone = Walking(), Walking()
    session = exported(env, tmp_path)
    assert run(env, session, capsys, num_episodes=3, max_episode_steps=4) == (True, 12)
    actor = make_actor(4)
    with torch.no_grad():
        observations = alone.observations_reset()
        for _ in range(12):
            observations, _ = alone.step(actor(observations))
    assert torch.equal(env.position, alone.position)


@RESETTABLE
def test_with_reset_an_episode_that_is_long_enough_is_ended_by_it(kind, tmp_path: Path, capsys):
    env = kind()
    session = exported(env, tmp_path)
    assert run(env, session, capsys, num_episodes=3, max_episode_steps=4) == (True, 12)
    assert env.resets == 3
    assert torch.equal(env.position, torch.full((1, 2), 0.3)) and not env.last.any()


@RESETTABLE
def test_after_such_a_reset_start_values_are_compared(kind, tmp_path: Path, capsys):
    env = kind()
    session = export(env, make_actor(4), tmp_path, initial_memory={"last": torch.full((1, 2), 0.5)})
    assert run(env, session, capsys, num_steps=12) == (True, 12)
    assert run(env, session, capsys, num_episodes=3, max_episode_steps=4) == (False, 12)


@RESETTABLE
def test_a_reset_of_the_environment_at_the_last_step_counts_once(kind, tmp_path: Path, capsys):
    env = kind(reset_every=4)
    session = exported(env, tmp_path)
    assert run(env, session, capsys, num_episodes=2, max_episode_steps=4) == (True, 8)
    assert env.resets == 0


@RESETTABLE
def test_the_steps_of_an_episode_are_counted_from_its_reset(kind, tmp_path: Path, capsys):
    env = kind(reset_every=3)
    env._steps = 1
    session = exported(env, tmp_path)
    assert run(env, session, capsys, num_episodes=2, max_episode_steps=3) == (True, 5)
    assert env.resets == 0


class Recurrent(ExportableActor):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = torch.nn.GRUCell(4, 2)
        self.hidden = torch.zeros(1, 2)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.hidden = self.cell(obs, self.hidden)
        return self.hidden * 1.0

    def reset(self, dones: torch.Tensor) -> None:
        self.hidden = torch.where(dones[:, None], 0.0, self.hidden)

    def get_state(self) -> tuple[torch.Tensor, ...]:
        return (self.hidden,)


@RESETTABLE
def test_the_state_of_the_actor_is_reset_with_the_environment(kind, tmp_path: Path, capsys):
    env, actor = kind(), Recurrent()
    add_actor_memory(env.context_manager(), actor.get_state)
    session = exported(env, tmp_path, actor)
    length = {"num_episodes": 3, "max_episode_steps": 4, "reset_from_onnx_counter_steps": None}
    assert run(env, session, capsys, **length) == (True, 12)
    assert not actor.hidden.any()


# -- steps and episodes -----------------------------------------------------------------------------------------------


@pytest.mark.matrix(3)
@ALL
@pytest.mark.parametrize(("num_steps", "made"), [(7, 7), (50, 10)])
def test_of_steps_and_episodes_what_comes_first_ends_the_run(kind, num_steps, made, tmp_path: Path, capsys):
    env = kind(reset_every=5)
    session = exported(env, tmp_path)
    assert run(env, session, capsys, num_steps=num_steps, num_episodes=2) == (True, made)


@RESETTABLE
def test_steps_can_be_cut_into_episodes(kind, tmp_path: Path, capsys):
    env = kind()
    session = exported(env, tmp_path)
    assert run(env, session, capsys, num_steps=10, max_episode_steps=4) == (True, 10)
    assert env.resets == 2


# -- invalid numbers --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walking(tmp_path_factory: pytest.TempPathFactory) -> tuple[Walking, SessionWrapper]:
    env = Walking()
    return env, exported(env, tmp_path_factory.mktemp("walking"))


@pytest.mark.parametrize("number", [0, -1, 1.5, float("nan")])
@pytest.mark.parametrize("name", ["num_steps", "num_episodes", "max_episode_steps"])
def test_a_number_that_is_no_positive_integer_is_refused(name, number, walking):
    env, session = walking
    length = {"num_steps": 5, "num_episodes": 2, "max_episode_steps": 3, name: number}
    with pytest.raises(InvalidEnvironmentError, match=rf"needs {name} of 1 or more, an integer; got {number}"):
        evaluate(env, env.context_manager(), session, **length)
    assert env._steps == 0


@pytest.mark.parametrize("length", [{}, {"num_episodes": 2}, {"max_episode_steps": 2}])
def test_a_run_without_end_is_refused(length, walking):
    env, session = walking
    with pytest.raises(InvalidEnvironmentError, match="needs num_steps, or num_episodes and max_episode_steps"):
        evaluate(env, env.context_manager(), session, **length)
    assert env._steps == 0
