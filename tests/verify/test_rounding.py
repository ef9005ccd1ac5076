"""Rounding is told from faults: right files agree over thousands of steps, and small faults show all the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.exporter.core.actor import ExportableActor
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.session_wrapper import SessionWrapper
from tests.support.environments import export, make_actor
from tests.support.pd_robots import JOINTS, ROBOTS, START, PdRobot, Robot, robot_and_actor

CHEAP = 3


def robots() -> list[Any]:
    """The first robots for 300 steps, and all of them for 2,000, which is expensive."""
    cheap = [pytest.param(robot, 300, id=f"{robot}-300") for robot in ROBOTS[:CHEAP]]
    long = [pytest.param(robot, 2000, id=f"{robot}-2000", marks=pytest.mark.expensive) for robot in ROBOTS]
    return [*cheap, *long]


def agrees(env: PdRobot, actor: ExportableActor, folder: Path, steps: int) -> bool:
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


@pytest.mark.parametrize("fault", [weaker, swapped, other_weights])
@pytest.mark.parametrize("robot", [WEAK, STRONG], ids=str)
def test_a_wrong_file_of_a_coarse_actor_differs(robot, fault, tmp_path: Path, capsys):
    env, actor = PdRobot(robot), Coarse()
    fault(env, actor)
    export(env, actor, tmp_path)
    assert not agrees(PdRobot(robot), Coarse(), tmp_path, 100)
    assert "differs: the file does NOT agree" in capsys.readouterr().out


class Scaled(PdRobot):
    """Scales one observation, which is not the largest."""

    def __init__(self, robot: Robot, scale: float):
        super().__init__(robot)
        self.scale = torch.ones(self.num_observations)
        self.scale[5] = scale

    def observe(self) -> torch.Tensor:
        return self.scale * super().observe()


@pytest.mark.parametrize("robot", [WEAK, STRONG], ids=str)
def test_observations_are_not_judged_as_coarsely_as_the_actor(robot: Robot, tmp_path: Path, capsys):
    export(Scaled(robot, 1.001), Coarse(), tmp_path)
    assert agrees(Scaled(robot, 1.001), Coarse(), tmp_path, 60)
    assert not agrees(Scaled(robot, 1.0), Coarse(), tmp_path, 60)
    assert "obs_5" in capsys.readouterr().out


@pytest.mark.parametrize("robot", [WEAK, STRONG], ids=str)
def test_start_values_are_not_judged_as_coarsely_as_the_actor(robot: Robot, tmp_path: Path, capsys):
    env = PdRobot(robot)
    export(env, Coarse(), tmp_path, initial_memory=wrong_start(env))
    assert not agrees(PdRobot(robot), Coarse(), tmp_path, 60)
    assert "memory.filtered.out" in capsys.readouterr().out
