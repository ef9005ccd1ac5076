"""CleanRL agents with the wrappers that normalise and clip."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import ClipAction, NormalizeObservation, TransformObservation

from exploy.errors import CheckpointError, ExployError, PolicyError
from exploy.exporter.frameworks import cleanrl
from exploy.runtime import Controller
from tests.support.cleanrl import (
    BetaAgent,
    CategoricalQNetwork,
    ContinuousAgent,
    DeterministicActor,
    DiscreteAgent,
    MultiDiscreteAgent,
    PixelAgent,
    QNetwork,
    RecurrentAgent,
    SquashedActor,
)
from tests.support.gym_environments import RandomWalk
from tests.support.policies import assert_agrees, random_observations

NOTHING: dict[str, Any] = {"normalization": None, "clip_actions": None}


def made(kind: type[torch.nn.Module], env: str | Callable[[], Any] = "Pendulum-v1") -> tuple[Any, Any]:
    torch.manual_seed(0)
    envs: Any = gym.vector.SyncVectorEnv([env if callable(env) else lambda: gym.make(env)])
    return kind(envs), envs


def actor_mean(agent: Any) -> Callable[[Any], np.ndarray]:
    return lambda values: agent.actor_mean(torch.from_numpy(values["obs"])).detach().numpy()


DETERMINISTIC: dict[type[torch.nn.Module], Callable[[Any, torch.Tensor], torch.Tensor]] = {
    DiscreteAgent: lambda agent, x: agent.actor(x).argmax(1),
    CategoricalQNetwork: lambda agent, x: agent.get_action(x)[0],
    QNetwork: lambda agent, x: agent(x).argmax(1),
    SquashedActor: lambda agent, x: agent.get_action(x)[2],
    DeterministicActor: lambda agent, x: agent(x),
    ContinuousAgent: lambda agent, x: agent.actor_mean(x),
}


@pytest.mark.matrix
@pytest.mark.parametrize("kind", list(DETERMINISTIC), ids=lambda kind: kind.__name__)
def test_every_script_gives_its_deterministic_actions(kind: type[torch.nn.Module], tmp_path: Path) -> None:
    is_discrete = kind in (DiscreteAgent, CategoricalQNetwork, QNetwork)
    agent, envs = made(kind, "CartPole-v1" if is_discrete else "Pendulum-v1")
    path = cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=envs, **NOTHING)
    width = envs.single_observation_space.shape

    @torch.no_grad()
    def infer(values: Any) -> np.ndarray:
        return DETERMINISTIC[kind](agent, torch.from_numpy(values["obs"])).numpy()

    assert assert_agrees(path, infer, random_observations({"obs": width})) == 1_000


def test_several_discrete_actions_are_chosen_at_once(tmp_path: Path) -> None:
    action_space = spaces.MultiDiscrete([3, 2, 4])
    agent, envs = made(MultiDiscreteAgent, lambda: RandomWalk(spaces.Box(-1.0, 1.0, (5,)), action_space))
    path = cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=envs, dynamic_batch=True, **NOTHING)

    def infer(values: Any) -> np.ndarray:
        parts = torch.split(agent.actor(torch.from_numpy(values["obs"])), agent.nvec, dim=1)
        return torch.stack([part.argmax(1) for part in parts], dim=1).numpy()

    assert_agrees(path, infer, random_observations({"obs": (5,)}))
    many = Controller.load(path, sizes={"batch": 6})
    values = {"obs": np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)}
    np.testing.assert_array_equal(many.step(values)["actions"], infer(values))


def test_images_are_scaled_as_the_agent_does(tmp_path: Path) -> None:
    torch.manual_seed(0)
    agent = PixelAgent()
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    path = cleanrl.export_policy(agent, tmp_path / "policy.onnx", observation_space=space, **NOTHING)

    def images() -> Iterator[dict[str, np.ndarray]]:
        rng = np.random.default_rng(0)
        for _ in range(1000):
            yield {"obs": rng.integers(0, 256, (1, 4, 84, 84), dtype=np.uint8)}

    @torch.no_grad()
    def infer(values: Any) -> np.ndarray:
        return agent.actor(agent.network(torch.Tensor(values["obs"]) / 255.0)).argmax(1).numpy()

    assert_agrees(path, infer, images())


def test_normalisation_and_both_clips_are_inside(tmp_path: Path) -> None:
    """An episode of a wrapped pendulum: the file gets raw observations and returns clipped actions."""
    agent, _ = made(ContinuousAgent)
    agent.actor_mean[-1].bias.data += 1.9
    normalized = NormalizeObservation(gym.make("Pendulum-v1"))
    wrapped = TransformObservation(normalized, lambda obs: np.clip(obs, -1.5, 1.5), normalized.observation_space)
    env = ClipAction(wrapped)
    env.reset(seed=0)
    for _ in range(300):
        if any(env.step(wrapped.action_space.sample())[2:4]):
            env.reset()
    normalized.update_running_mean = False
    options: dict[str, Any] = {"normalization": env, "clip_observations": 1.5, "clip_actions": True}
    path = cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=gym.make_vec("Pendulum-v1"), **options)
    controller, raw_env = Controller.load(path), gym.make("Pendulum-v1")
    assert controller.ports["obs"].dtype == "float32"
    obs, raw = env.reset(seed=5)[0], raw_env.reset(seed=5)[0]
    clipped = {"observations": 0, "actions": 0}
    for _ in range(200):
        action = agent.actor_mean(torch.Tensor(obs[None])).detach().numpy()[0]
        got = controller.step({"obs": raw[None]})["actions"][0]
        np.testing.assert_allclose(got, np.clip(action, -2.0, 2.0), rtol=1e-5, atol=1e-5)
        clipped["observations"] += bool((np.abs(obs) == 1.5).any())
        clipped["actions"] += bool((np.abs(action) > 2.0).any())
        obs, raw = env.step(action)[0], raw_env.step(got)[0]
    assert min(clipped.values()) > 5, clipped


def test_statistics_may_come_from_a_file(tmp_path: Path) -> None:
    agent, envs = made(ContinuousAgent)
    mean, var = np.array([0.5, -0.25, 3.0]), np.array([1.0, 4.0, 0.04])
    np.savez(tmp_path / "stats.npz", mean=mean, var=var, epsilon=1e-8)
    torch.save(agent.state_dict(), tmp_path / "agent.cleanrl_model")
    options: dict[str, Any] = {"normalization": tmp_path / "stats.npz", "clip_observations": None, "clip_actions": None}
    path = cleanrl.export_policy(
        tmp_path / "agent.cleanrl_model", tmp_path / "policy.onnx", agent=ContinuousAgent, envs=envs, **options
    )

    def infer(values: Any) -> np.ndarray:
        scaled = (values["obs"] - mean) / np.sqrt(var + 1e-8)
        return actor_mean(agent)({"obs": scaled.astype(np.float32)})

    assert_agrees(path, infer, random_observations({"obs": (3,)}))


def test_observations_may_be_clipped_without_being_normalised(tmp_path: Path) -> None:
    agent, envs = made(ContinuousAgent)
    options: dict[str, Any] = {"normalization": None, "clip_observations": 0.5, "clip_actions": None}
    path = cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=envs, **options)
    clipped = lambda values: actor_mean(agent)({"obs": np.clip(values["obs"], -0.5, 0.5)})  # noqa: E731
    assert_agrees(path, clipped, random_observations({"obs": (3,)}, 50))


class OtherName(torch.nn.Module):
    """A Gaussian agent whose network has a different name."""

    def __init__(self, envs: Any):
        super().__init__()
        self.actor = torch.nn.Linear(3, 1)

    def get_action_and_value(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        action = torch.distributions.Normal(self.actor(x), 1.0).sample()
        return action, action


class PlainActor(torch.nn.Module):
    """A deterministic actor that has the attribute of a Q-network."""

    def __init__(self, envs: Any):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)


def test_the_action_space_tells_values_from_actions(tmp_path: Path) -> None:
    actor, envs = made(PlainActor)
    path = cleanrl.export_policy(actor, tmp_path / "policy.onnx", envs=envs, **NOTHING)
    assert_agrees(
        path, lambda values: actor(torch.from_numpy(values["obs"])).detach(), random_observations({"obs": (3,)}, 9)
    )
    with pytest.raises(PolicyError, match=r"Missing: envs= .its action space decides"):
        cleanrl.export_policy(actor, tmp_path / "policy.onnx", observation_space=(3,), **NOTHING)


def test_a_recurrent_agent_runs_through_episodes(tmp_path: Path) -> None:
    agent, envs = made(RecurrentAgent, "CartPole-v1")
    path = cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=envs, rate_hz=50, **NOTHING)
    controller, env = Controller.load(path), gym.make("CartPole-v1")
    assert [memory.name for memory in controller.contract.memories] == ["h", "c"]
    obs, done, episodes = env.reset(seed=0)[0], True, 0
    state = (torch.zeros(1, 1, 16), torch.zeros(1, 1, 16))
    for _ in range(1000):
        with torch.no_grad():
            hidden, state = agent.get_states(torch.Tensor(obs[None]), state, torch.tensor([float(done)]))
            expected = int(agent.actor(hidden).argmax())
        assert controller.step({"obs": obs[None]})["actions"][0] == expected
        obs, _, terminated, truncated, _ = env.step(expected)
        done = terminated or truncated
        if done:
            obs, episodes = env.reset()[0], episodes + 1
            controller.reset()
    assert episodes > 5


def test_actors_are_saved_before_their_critics(tmp_path: Path) -> None:
    """TD3 and DDPG save a tuple."""
    actor, envs = made(DeterministicActor)
    path = tmp_path / "td3.cleanrl_model"
    torch.save((actor.state_dict(), QNetwork(envs).state_dict()), path)
    fresh, _ = made(DeterministicActor)
    before = copy.deepcopy(fresh.state_dict())
    loaded = cleanrl.actor_from_checkpoint(path, agent=fresh, envs=envs, normalization=None)
    x = torch.randn(7, 3)
    torch.testing.assert_close(loaded(x), actor(x))
    assert all(torch.equal(before[name], value) for name, value in fresh.state_dict().items())


def test_the_agent_and_torch_stay_as_they_are(tmp_path: Path) -> None:
    agent, envs = made(ContinuousAgent)
    before = copy.deepcopy(agent.state_dict())
    samples = [kind.sample for kind in (torch.distributions.Normal, torch.distributions.Categorical)]
    generator = torch.random.get_rng_state()
    cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=envs, **NOTHING)
    assert agent.training and all(parameter.requires_grad for parameter in agent.parameters())
    assert all(torch.equal(before[name], value) for name, value in agent.state_dict().items())
    assert samples == [kind.sample for kind in (torch.distributions.Normal, torch.distributions.Categorical)]
    assert torch.equal(generator, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (ContinuousAgent, {}, "Missing: observation_space= .*; normalization= .*; clip_actions="),
        (DiscreteAgent, {"observation_space": (4,), "normalization": 1.0}, "Missing: clip_observations="),
        (DiscreteAgent, {"observation_space": 4, "normalization": None}, r"a Box or a shape such as \(17,\), got 4"),
        (ContinuousAgent, {"observation_space": (3,), "normalization": None, "clip_actions": 1.0}, "a Box with bounds"),
        (OtherName, {"observation_space": (3,), "normalization": None}, "Missing: clip_actions="),
        (ContinuousAgent, {"observation_space": (3,), "clip_observations": -5, **NOTHING}, "above zero, .* got -5"),
        (ContinuousAgent, {"observation_space": (3,), "clip_observations": "10", **NOTHING}, "above zero, .* got '10'"),
        (ContinuousAgent, {"observation_space": (3,), "agent": 1, **NOTHING}, "agent= is only for checkpoints"),
        (BetaAgent, {"observation_space": (3,), **NOTHING}, "samples from a Beta"),
        (torch.nn.Linear, {}, "looked for `get_action_and_value`"),
    ],
)
def test_what_is_left_open_is_refused(kind: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    is_linear = kind is torch.nn.Linear
    agent = (
        torch.nn.Linear(2, 2) if is_linear else made(kind, "CartPole-v1" if kind is DiscreteAgent else "Pendulum-v1")[0]
    )
    with pytest.raises(PolicyError, match=message):
        cleanrl.export_policy(agent, tmp_path / "policy.onnx", **options)
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    agent, envs = made(ContinuousAgent)
    path = tmp_path / "agent.cleanrl_model"

    def refused(message: str, **options: Any) -> None:
        with pytest.raises(ExployError, match=message) as caught:
            cleanrl.actor_from_checkpoint(path, envs=envs, **NOTHING, **options)
        assert isinstance(caught.value, CheckpointError | PolicyError)

    refused("Checkpoint not found", agent=agent)
    torch.save(agent.state_dict(), path)
    refused(r"Missing: agent= \(the module, or its class\)")
    refused(r"does not match the SquashedActor: missing .*; unknown", agent=SquashedActor)
    refused(r"<lambda>\(envs\) raised ZeroDivisionError", agent=lambda envs: 1 / 0)
    refused("must return a torch.nn.Module, got int", agent=lambda envs: 3)
    torch.save({"model": {"a": torch.zeros(1)}}, path)
    refused("looked for a state_dict, found the keys model", agent=ContinuousAgent)
    torch.save(agent, path)
    refused("more than tensors and plain values", agent=ContinuousAgent)
    path.write_text("weights")
    refused("more than tensors and plain values, or is damaged", agent=ContinuousAgent)


def test_a_normaliser_of_another_width_is_refused(tmp_path: Path) -> None:
    agent, envs = made(ContinuousAgent)
    other = NormalizeObservation(gym.make("CartPole-v1"))
    options: dict[str, Any] = {"clip_observations": 10.0, "clip_actions": None}
    with pytest.raises(PolicyError, match=r"statistics of shape \(4,\), but one observation 'obs' .* \(3,\)"):
        cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=envs, normalization=other, **options)
    with pytest.raises(PolicyError, match="The normaliser has no mean, var, epsilon"):
        cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=envs, normalization=object(), **options)
    with pytest.raises(CheckpointError, match=r"statistics not found: none\.npz"):
        cleanrl.export_policy(agent, tmp_path / "policy.onnx", envs=envs, normalization="none.npz", **options)
