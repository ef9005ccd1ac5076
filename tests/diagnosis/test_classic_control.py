"""On environments that everybody knows, each tensor that is left out is found and named."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from exploy.diagnosis.finding import Finding, FindingKind
from tests.support.checking import check
from tests.support.classic_control import TorchCartPole, TorchPendulum
from tests.support.environments import assert_agrees, make_actor
from tests.support.pasting import paste

OMISSIONS = [
    (TorchCartPole, "x", FindingKind.UNREGISTERED_INPUT, "env.state[:, 0:1]"),
    (TorchCartPole, "x_dot", FindingKind.UNREGISTERED_INPUT, "env.state[:, 1:2]"),
    (TorchCartPole, "theta", FindingKind.UNREGISTERED_INPUT, "env.state[:, 2:3]"),
    (TorchCartPole, "theta_dot", FindingKind.UNREGISTERED_INPUT, "env.state[:, 3:4]"),
    (TorchCartPole, "last_action", FindingKind.MISSING_MEMORY, "env.last_action"),
    (TorchPendulum, "theta", FindingKind.UNREGISTERED_INPUT, "env.theta"),
    (TorchPendulum, "theta_dot", FindingKind.UNREGISTERED_INPUT, "env.theta_dot"),
    (TorchPendulum, "last_torque", FindingKind.MISSING_MEMORY, "env.last_torque"),
]


def actor_for(env) -> torch.nn.Module:
    return make_actor(env.num_observations, 1)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [TorchCartPole, TorchPendulum])
def test_the_complete_environments_are_fine(kind, tmp_path: Path):
    env = kind()
    diagnosis = check(env, actor_for(env))
    assert diagnosis.ok, diagnosis
    assert_agrees(env, actor_for(env), tmp_path)


@pytest.mark.matrix
@pytest.mark.parametrize(("make", "left_out", "kind", "tensor"), OMISSIONS)
def test_each_omission_is_found_and_named(make, left_out, kind, tensor):
    env = make(left_out)
    errors = check(env, actor_for(env)).errors
    assert [(item.kind, item.tensor) for item in errors] == [(kind, tensor)]
    assert f"get_from_env_cb=lambda: {tensor})" in errors[0].suggestion


@pytest.mark.matrix
@pytest.mark.parametrize(("make", "left_out"), [(make, left_out) for make, left_out, *_ in OMISSIONS])
def test_pasting_the_line_mends_each_omission(make, left_out, tmp_path: Path):
    env = make(left_out)
    actor = actor_for(env)
    paste(check(env, actor), env, actor)
    assert check(env, actor).ok
    assert_agrees(env, actor, tmp_path)


@pytest.mark.parametrize(("make", "output"), [(TorchCartPole, "force"), (TorchPendulum, "torque")])
def test_an_output_that_was_left_out_is_suggested(make, output):
    env = make(output)
    diagnosis = check(env, actor_for(env))
    (finding,) = [item for item in diagnosis.findings if item.kind is FindingKind.UNUSED]
    assert isinstance(finding, Finding)
    assert finding.tensor == "actions"
    assert finding.suggestion == f'Output(name="{output}", get_from_env_cb=lambda: env.{output})'


def test_the_cart_pole_moves_as_in_gymnasium():
    ours, theirs = TorchCartPole(), gymnasium.make("CartPole-v1").unwrapped
    theirs.reset(seed=0)
    theirs.state = ours.state[0].double().numpy()  # type: ignore[attr-defined]
    for push in (1, 0, 1, 1, 0, 0, 1, 0):
        theirs.step(push)
        ours.process_actions(torch.tensor([[2.0 * push - 1.0]]))
        ours.move()
        assert np.allclose(ours.state[0], theirs.state, atol=1e-5)  # type: ignore[attr-defined]


def test_the_pendulum_moves_as_in_gymnasium():
    ours, theirs = TorchPendulum(), gymnasium.make("Pendulum-v1").unwrapped
    theirs.reset(seed=0)
    theirs.state = np.array([1.0, 0.0])  # type: ignore[attr-defined]
    for torque in (0.5, -1.5, 3.0, 2.0, -0.1):
        theirs.step(np.array([torque]))
        ours.process_actions(torch.tensor([[torque]]))
        ours.apply_actions()
        ours.move()
        moved = torch.cat([ours.theta, ours.theta_dot], -1)[0]
        assert np.allclose(moved, theirs.state, atol=1e-5)  # type: ignore[attr-defined]
