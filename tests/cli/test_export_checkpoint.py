"""`exploy export --from`: exports the policy in a trainer's checkpoint, with options for what the checkpoint lacks."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from exploy.exporter.frameworks import rl_games, rsl_rl, skrl
from exploy.runtime import Controller
from tests.support.cleanrl import ContinuousAgent, QNetwork
from tests.support.command_line import FACTORIES, assert_fails, run, run_installed
from tests.trainers import test_rl_games, test_rsl_rl, test_skrl

AGENTS = "tests.support.cleanrl"


@pytest.fixture
def sb3_files(tmp_path: Path) -> tuple[Any, Any]:
    venv = VecNormalize(make_vec_env("Pendulum-v1", seed=0))
    model = PPO("MlpPolicy", venv, n_steps=32, batch_size=32, device="cpu", seed=0).learn(64)
    model.save(tmp_path / "model.zip")
    venv.save(str(tmp_path / "vn.pkl"))
    return model, venv


def test_a_checkpoint_of_sb3_needs_nothing_else(tmp_path: Path, sb3_files: tuple[Any, Any]) -> None:
    model, venv = sb3_files
    options = ["--vecnormalize", "vn.pkl", "--rate", 20, "--obs-names", "cos,sin,speed", "--action-names", "torque"]
    options += ["--on-stop", "zero"]
    result = run_installed("export", "--from", "sb3", "model.zip", *options, "-o", "policy.onnx", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "policy.onnx" in result.stdout and "verified against the policy" in result.stdout
    controller = Controller.load(tmp_path / "policy.onnx")
    assert controller.ports["obs"].names == ("cos", "sin", "speed") and controller.contract.hz == 20
    assert controller.ports["actions"].on_stop == "zero"
    obs = np.array([[0.5, -0.8, 3.0]], np.float32)
    expected = model.predict(venv.normalize_obs(obs), deterministic=True)[0]
    np.testing.assert_allclose(controller.step({"obs": obs})["actions"], expected, atol=1e-5)


def test_an_agent_of_cleanrl_needs_its_class_and_environment(tmp_path: Path) -> None:
    torch.manual_seed(0)
    envs: Any = gym.make_vec("Pendulum-v1")
    agent = ContinuousAgent(envs)
    torch.save(agent.state_dict(), tmp_path / "agent.pt")
    np.savez(tmp_path / "stats.npz", mean=np.zeros(3), var=np.full(3, 4.0), epsilon=0.0)
    command = ["export", "--from", "cleanrl", "agent.pt", "--agent", f"{AGENTS}:ContinuousAgent"]
    assert_fails(run(*command, folder=tmp_path), "Give envs= that it accepts")
    command += ["--env", "Pendulum-v1"]
    assert_fails(run(*command, folder=tmp_path), "Missing: normalization= ")
    assert not (tmp_path / "policy.onnx").exists()
    command += ["--set", "normalization=stats.npz", "--set", "clip_observations=10", "--set", "clip_actions=true"]
    result = run(*command, "--dynamic-batch", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    controller = Controller.load(tmp_path / "policy.onnx", sizes={"batch": 2})
    obs = np.array([[0.5, -0.8, 3.0], [1.0, 0.0, -1.0]], np.float32)
    expected = agent.actor_mean(torch.from_numpy(obs) / 2.0).detach().clamp(-2.0, 2.0).numpy()
    np.testing.assert_allclose(controller.step({"obs": obs})["actions"], expected, atol=1e-5)


def checkpoint_of_rsl_rl(folder: Path) -> Any:
    runner = test_rsl_rl.trained("beta")
    test_rsl_rl.checkpoint_of(runner, folder / "model.pt")
    (folder / "agent.yaml").write_text(yaml.dump(test_rsl_rl.config_of("beta")))
    return rsl_rl.actor_from_runner(runner)


def checkpoint_of_skrl(folder: Path) -> Any:
    agent = test_skrl.trained_on_pendulum().agent
    agent.save(str(folder / "model.pt"))
    (folder / "agent.yaml").write_text(yaml.safe_dump(test_skrl.CONFIG))
    return skrl.actor_from_agent(agent)


def checkpoint_of_rl_games(folder: Path) -> Any:
    env = gym.make("Pendulum-v1")
    player = test_rl_games.player_of(test_rl_games.PENDULUM, env.observation_space, env.action_space)
    torch.save({"model": player.model.state_dict()}, folder / "model.pt")
    (folder / "agent.yaml").write_text(yaml.safe_dump(test_rl_games.PENDULUM))
    return rl_games.actor_from_player(player)


@pytest.mark.parametrize(
    ("library", "make", "options", "width"),
    [
        ("rsl_rl", checkpoint_of_rsl_rl, [], 2),
        ("skrl", checkpoint_of_skrl, ["--env", "Pendulum-v1"], 3),
        ("rl_games", checkpoint_of_rl_games, ["--env", "Pendulum-v1"], 3),
    ],
)
def test_the_others_need_the_configuration_of_the_run(
    library: str, make: Any, options: list[str], width: int, tmp_path: Path
) -> None:
    actor = make(tmp_path)
    command = ["export", "--from", library, "model.pt"]
    alone = run(*command, folder=tmp_path)
    assert alone.returncode == 2 and "config" in alone.stderr, alone.stderr
    assert not (tmp_path / "policy.onnx").exists()
    result = run(*command, "--config", "agent.yaml", *options, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    obs = np.linspace(-1.0, 1.0, width, dtype=np.float32)[None]
    with torch.no_grad():
        expected = actor(torch.from_numpy(obs))
    got = Controller.load(tmp_path / "policy.onnx").step({"obs": obs})["actions"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "sb3", "none.zip"], "Checkpoint not found: none.zip."),
        (["--from", "sb3", "q.pt"], "q.pt is not a checkpoint of Stable-Baselines3"),
        (["--from", "sb3", "q.pt", "--config", "agent.yaml"], "sb3 does not take config. It takes: vecnormalize"),
        (["--from", "cleanrl", "q.pt"], "Missing: agent="),
        (["--from", "cleanrl", "q.pt", "--agent", f"{AGENTS}:Nothing"], "found no such name"),
        (["--from", "cleanrl", "q.pt", "--env", "None-v0"], "The environment None-v0 raised"),
        (["--from", "cleanrl", "q.pt", "--set", "agent"], "--set takes NAME=VALUE"),
        (["--from", "cleanrl", "q.pt", "--infer-memory"], "only work for environments. Remove them with --from"),
        (["--from", "gbc", "q.pt"], "looked for 'model_state_dict', found network.0.weight"),
        (["--from", "rsl_rl", "q.pt"], "q.pt is not a checkpoint of rsl_rl"),
        (["--from", "rl_games", "q.pt"], "Give config="),
        (["--from", "skrl", "q.pt"], "q.pt is not a checkpoint of skrl"),
    ],
)
def test_what_is_missing_is_said(arguments: list[str], message: str, tmp_path: Path) -> None:
    torch.save(QNetwork(gym.make_vec("CartPole-v1")).state_dict(), tmp_path / "q.pt")
    assert_fails(run("export", *arguments, folder=tmp_path), message)
    assert not (tmp_path / "policy.onnx").exists()


def test_options_of_checkpoints_are_refused_for_environments(tmp_path: Path) -> None:
    result = run("export", f"{FACTORIES}:robot", "--rate", 50, "-o", tmp_path / "policy.onnx")
    assert result.returncode == 2 and "only with --from" in result.stderr


def test_the_help_says_that_some_checkpoints_are_code() -> None:
    words = " ".join(run("export", "--help").stdout.replace("│", " ").split())
    assert "code that is run" in words and "--vecnormalize" in words
