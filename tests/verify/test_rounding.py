"""Rounding is told from faults: right files agree over thousands of steps, and small faults show all the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import PendulumEnv

from exploy.exporter.core.actor import ExportableActor, add_actor_memory
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.session_wrapper import SessionWrapper
from tests.support.environments import TestEnvironment, export, make_actor
from tests.support.pd_robots import JOINTS, ROBOTS, START, PdRobot, Recurrent, Robot, robot_and_actor

pytestmark = pytest.mark.expensive

CHEAP = 3


def robots() -> list[Any]:
    """The first robots for 300 steps, and all of them for 2,000, which is expensive."""
    cheap = [pytest.param(robot, 300, id=f"{robot}-300") for robot in ROBOTS[:CHEAP]]
    long = [pytest.param(robot, 2000, id=f"{robot}-2000", marks=pytest.mark.expensive) for robot in ROBOTS]
    return [*cheap, *long]


def agrees(env: TestEnvironment, actor: ExportableActor, folder: Path, steps: int) -> bool:
    """Step a robot beside a file, with the memories of the file fed back and the default tolerances."""
    env._reset_every = min(401, steps // 2 + 1)
    session = SessionWrapper(folder, "policy.onnx", actor=actor, optimize=False)
    ok, _ = evaluate(
        env,
        env.context_manager(),
        session,
        steps,
        verbose=False,
        pause_on_failure=False,
        reset_from_onnx_counter_steps=None,
    )
    return ok


@pytest.mark.matrix(2)
@pytest.mark.parametrize(("robot", "steps"), robots())
def test_a_right_file_agrees(robot: Robot, steps: int, tmp_path: Path):
    export(*robot_and_actor(robot), tmp_path)
    assert agrees(*robot_and_actor(robot), tmp_path, steps)


def wrong_gain(env: PdRobot) -> dict[str, torch.Tensor]:
    env.stiffness[1] *= 1.001
    return {}


def swapped_joint(env: PdRobot) -> dict[str, torch.Tensor]:
    env.order[:] = torch.tensor([0, 2, 1, 3])
    return {}


def wrong_start(env: PdRobot) -> dict[str, torch.Tensor]:
    value = env.filtered.clone()
    value[0, 2] = START * 1.001
    return {"filtered": value}


def wrong_start_of_the_actor(env: PdRobot) -> dict[str, torch.Tensor]:
    states = {item.name: item.value.clone() for item in env.context_manager().get_memory_components()}
    name = "actor_state_0" if "actor_state_0" in states else "clock"
    states[name].view(-1)[0] += 1e-3
    return {name: states[name]}


@pytest.mark.matrix(2)
@pytest.mark.parametrize("fault", [wrong_gain, swapped_joint, wrong_start, wrong_start_of_the_actor])
@pytest.mark.parametrize(
    "robot",
    [
        pytest.param(item, id=str(item), marks=() if n < CHEAP else pytest.mark.expensive)
        for n, item in enumerate(ROBOTS)
    ],
)
def test_a_small_fault_shows(robot: Robot, fault: Callable[[PdRobot], dict[str, torch.Tensor]], tmp_path: Path, capsys):
    env, actor = robot_and_actor(robot)
    export(env, actor, tmp_path, initial_memory=fault(env))
    assert not agrees(*robot_and_actor(robot), tmp_path, 100)
    assert "differs: the file does NOT agree" in capsys.readouterr().out


# -- a class of a real library --------------------------------------------------------------------------------------


class StrongPendulum(TestEnvironment):
    """Gymnasium's pendulum, whose state is float64, with a PD law of 1e3 Nm, a filter and an LSTM."""

    num_actions = 1
    num_observations = 3

    def __init__(self, hooked: bool):
        super().__init__(decimation=2, reset_every=61)
        self._hooked = hooked
        self.pendulum = PendulumEnv()
        self.pendulum.m, self.pendulum.max_torque = 100.0, 2000.0
        self.pendulum.reset(seed=0)
        self.gains = torch.tensor([[1000.0, 100.0]], dtype=torch.float64)
        self.state = torch.zeros(1, 2, dtype=torch.float64)
        self.filtered = torch.full((1, 1), START)
        self.torque = torch.zeros(1, 1)
        self.look()
        self.context_manager().add_components(
            [
                Input("state", lambda: self.state),
                Memory("filtered", lambda: self.filtered),
                Output("torque", lambda: self.torque),
            ]
        )

    def look(self) -> None:
        self.state = torch.from_numpy(np.array(self.pendulum.state)[None])

    def observe(self) -> torch.Tensor:
        return torch.cat([self.state.float(), self.filtered], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.filtered = 0.8 * self.filtered + 0.2 * actions.tanh()

    def apply_actions(self) -> None:
        law = (self.gains * self.state).sum(-1, keepdim=True)
        self.torque = (1000.0 * self.filtered - law).float()

    def move(self) -> None:
        self.pendulum.step(self.torque[0].numpy())
        self.look()

    def prepare_export(self) -> None:
        pass

    def restart(self) -> None:
        self.pendulum.reset()
        self.look()
        self.filtered = torch.full((1, 1), START)

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        if self._hooked:
            super().register_evaluation_hooks(update, reset, evaluate_substep)


def pendulum_and_actor(hooked: bool) -> tuple[StrongPendulum, ExportableActor]:
    env, actor = StrongPendulum(hooked), Recurrent("lstm", observations=3, actions=1)
    add_actor_memory(env.context_manager(), actor.get_state)
    return env, actor


@pytest.mark.parametrize("hooked", [True, pytest.param(False, marks=pytest.mark.expensive)])
def test_a_right_file_of_a_gymnasium_environment_agrees(hooked: bool, tmp_path: Path):
    export(*pendulum_and_actor(hooked), tmp_path)
    env, actor = pendulum_and_actor(hooked)
    assert agrees(env, actor, tmp_path, 300)
    assert float(env.torque.abs()) > 1.0


def test_a_small_fault_of_a_gymnasium_environment_shows(tmp_path: Path, capsys):
    env, actor = pendulum_and_actor(hooked=False)
    env.gains[0, 0] *= 1.001
    export(env, actor, tmp_path)
    assert not agrees(*pendulum_and_actor(hooked=False), tmp_path, 60)
    assert "differs: the file does NOT agree" in capsys.readouterr().out


# -- coarse actors --------------------------------------------------------------------------------------------------


class Coarse(ExportableActor):
    """Computes in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.network = make_actor(PdRobot.num_observations, JOINTS).half()

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.network(obs.half())
        return result.float()


WEAK, STRONG = Robot(1.0, "mlp"), Robot(300.0, "mlp", hooked=False)


@pytest.mark.matrix
@pytest.mark.parametrize("robot", [WEAK, STRONG], ids=str)
def test_a_coarse_actor_is_judged_at_its_precision(robot: Robot, tmp_path: Path):
    export(PdRobot(robot), Coarse(), tmp_path)
    assert agrees(PdRobot(robot), Coarse(), tmp_path, 300)


def weaker(env: PdRobot, actor: Coarse) -> None:
    env.stiffness[1] *= 0.95


def swapped(env: PdRobot, actor: Coarse) -> None:
    swapped_joint(env)


def other_weights(env: PdRobot, actor: Coarse) -> None:
    next(actor.parameters()).data[0] *= -1.0


@pytest.mark.matrix
@pytest.mark.parametrize("fault", [weaker, swapped, other_weights])
@pytest.mark.parametrize("robot", [WEAK, STRONG], ids=str)
def test_a_wrong_file_of_a_coarse_actor_differs(robot, fault, tmp_path: Path, capsys):
    env, actor = PdRobot(robot), Coarse()
    fault(env, actor)
    export(env, actor, tmp_path)
    assert not agrees(PdRobot(robot), Coarse(), tmp_path, 100)
    assert "differs: the file does NOT agree" in capsys.readouterr().out


class Autocast(ExportableActor):
    """Computes in bfloat16 within a block."""

    def __init__(self) -> None:
        super().__init__()
        self.network = make_actor(PdRobot.num_observations, JOINTS)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result: torch.Tensor = self.network(obs)
        return result.float()


class Scaled(PdRobot):
    """Scales one observation, which is not the largest."""

    def __init__(self, robot: Robot, scale: float):
        super().__init__(robot)
        self.scale = torch.ones(self.num_observations)
        self.scale[5] = scale

    def observe(self) -> torch.Tensor:
        return self.scale * super().observe()


@pytest.mark.matrix(2)
@pytest.mark.parametrize("robot", [WEAK, STRONG], ids=str)
@pytest.mark.parametrize("actor", [Coarse, Autocast])
def test_observations_are_not_judged_as_coarsely_as_the_actor(actor, robot: Robot, tmp_path: Path, capsys):
    export(Scaled(robot, 1.001), actor(), tmp_path)
    assert agrees(Scaled(robot, 1.001), actor(), tmp_path, 60)
    assert not agrees(Scaled(robot, 1.0), actor(), tmp_path, 60)
    assert "obs_5" in capsys.readouterr().out


@pytest.mark.matrix
@pytest.mark.parametrize("robot", [WEAK, STRONG], ids=str)
def test_start_values_are_not_judged_as_coarsely_as_the_actor(robot: Robot, tmp_path: Path, capsys):
    env = PdRobot(robot)
    export(env, Coarse(), tmp_path, initial_memory=wrong_start(env))
    assert not agrees(PdRobot(robot), Coarse(), tmp_path, 60)
    assert "memory.filtered.out" in capsys.readouterr().out
