"""rl_games policies return the actions of the library's own player."""

import contextlib
import copy
import functools
import io
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from exploy.errors import CheckpointError, MetadataError, PolicyError
from exploy.exporter.frameworks.rl_games import (
    actor_from_agent,
    actor_from_checkpoint,
    actor_from_player,
    export_policy,
)
from exploy.runtime import Controller
from exploy.runtime.model_file import ModelFile
from tests.support.policies import Observations, assert_agrees, random_observations

pytestmark = pytest.mark.expensive

pytest.importorskip("rl_games")

VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
IMAGE = spaces.Box(0, 255, (12, 10, 3), np.uint8)
BOUNDS = spaces.Box(np.array([-2.0, -1.0, 0.0], np.float32), np.array([2.0, 0.5, 3.0], np.float32))
CONTINUOUS = {
    "continuous": {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": {"name": "default"},
        "sigma_init": {"name": "const_initializer", "val": 0},
        "fixed_sigma": True,
    }
}
MLP = {"units": [16, 16], "activation": "elu", "initializer": {"name": "default"}}
CNN = {
    "type": "conv2d",
    "activation": "relu",
    "initializer": {"name": "default"},
    "convs": [{"filters": 4, "kernel_size": 3, "strides": 2, "padding": 0}],
}
LSTM = {"name": "lstm", "units": 8, "layers": 2, "before_mlp": True}
GRU = {"name": "gru", "units": 8, "layers": 1, "before_mlp": False, "layer_norm": True, "concat_output": True}


def params(
    algorithm: str = "a2c_continuous",
    model: str = "continuous_a2c_logstd",
    *,
    network: dict[str, Any] | None = None,
    space: dict[str, Any] | None = None,
    **config: Any,
) -> dict[str, Any]:
    """A training configuration."""
    network = {"name": "actor_critic", "separate": False, "space": space or CONTINUOUS, "mlp": MLP} | (network or {})
    settings = {
        "name": "test",
        "env_name": "test",
        "device_name": "cpu",
        "device": "cpu",
        "normalize_input": True,
        "normalize_value": True,
        "clip_actions": True,
        "reward_shaper": {"scale_value": 1.0},
    }
    return {
        "params": {
            "seed": 3,
            "algo": {"name": algorithm},
            "model": {"name": model},
            "network": network,
            "config": settings | config,
        }
    }


def player_of(config: dict[str, Any], observations: spaces.Space, actions: spaces.Space) -> Any:
    """A player with some weights and statistics."""
    from rl_games.algos_torch import players

    from exploy.trainers.rl_games.checkpoint import PLAYERS

    made = copy.deepcopy(config["params"])
    made["config"]["env_info"] = {"observation_space": observations, "action_space": actions}
    with contextlib.redirect_stdout(io.StringIO()):
        torch.manual_seed(4)
        player = getattr(players, PLAYERS[made["algo"]["name"]])(made)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, tensor in player.model.named_parameters():
            if "rnn" not in name:
                tensor.add_(0.4 * torch.randn(tensor.shape, generator=generator))
        for name, tensor in player.model.named_buffers():
            if "running_mean_std" in name and tensor.ndim:
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator).double())
    player.has_batch_dimension = True
    player.reset()
    return player


def discrete(count: int = 4, **options: Any) -> Any:
    config = params("a2c_discrete", "discrete_a2c", space={"discrete": None}, **options)
    return player_of(config, VECTOR, spaces.Discrete(count))


def continuous(observations: spaces.Space = VECTOR, **options: Any) -> Any:
    return player_of(params(**options), observations, BOUNDS)


SAC_NETWORK = {"name": "soft_actor_critic", "separate": True, "log_std_bounds": [-5, 2]}


def sac(actions: spaces.Space, **options: Any) -> Any:
    return player_of(params("sac", "soft_actor_critic", network=SAC_NETWORK, **options), VECTOR, actions)


PLAYERS_BY_NAME: dict[str, Callable[[], Any]] = {
    "continuous": continuous,
    "unclipped": lambda: continuous(clip_actions=False, normalize_input=False),
    "tanh": lambda: continuous(model="continuous_a2c_tanh", normalize_value=False),
    "separate": lambda: continuous(network={"separate": True}),
    "d2rl": lambda: continuous(network={"mlp": MLP | {"d2rl": True}}),
    "discrete": discrete,
    "multi discrete": lambda: player_of(
        params("a2c_discrete", "multi_discrete_a2c", space={"multi_discrete": None}),
        VECTOR,
        spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2)]),
    ),
    "SAC": lambda: sac(spaces.Box(-1, 1, (2,))),
    "SAC with a smaller range": lambda: sac(spaces.Box(-0.4, 0.3, (2,)), normalize_input=False),
    "LSTM": lambda: continuous(network={"rnn": LSTM}),
    "GRU": lambda: continuous(network={"rnn": GRU}),
    "separate LSTM": lambda: continuous(network={"rnn": LSTM, "separate": True}),
    "separate GRU": lambda: discrete(network={"rnn": GRU, "separate": True}),
    "image": lambda: continuous(IMAGE, network={"cnn": CNN}, normalize_input=False),
    "normalised image": lambda: continuous(IMAGE, network={"cnn": CNN, "rnn": LSTM}),
    "dictionary": lambda: with_own_network(),
}


def with_own_network() -> Any:
    """A player with a custom registered network that reads a dictionary."""
    from rl_games.algos_torch import model_builder
    from rl_games.algos_torch.network_builder import NetworkBuilder

    class TwoInputs(NetworkBuilder):
        def load(self, params: Any) -> None:
            pass

        def build(self, name: str, **kwargs: Any) -> Any:
            return TwoInputs.Network(kwargs["input_shape"], kwargs["actions_num"])

        class Network(NetworkBuilder.BaseNetwork):
            def __init__(self, shapes: dict[str, tuple[int, ...]], actions: int):
                super().__init__()
                self.camera = torch.nn.Linear(int(np.prod(shapes["camera"])), 8)
                self.body = torch.nn.Linear(shapes["body"][0], 8)
                self.mu, self.value = torch.nn.Linear(8, actions), torch.nn.Linear(8, 1)

            def forward(self, values: dict[str, Any]) -> Any:
                seen = self.camera(values["obs"]["camera"].flatten(1))
                features = torch.tanh(seen + self.body(values["obs"]["body"]))
                mu = self.mu(features)
                return mu, mu * 0, self.value(features), None

    model_builder.register_network("two_inputs", TwoInputs)
    return continuous(
        spaces.Dict({"camera": IMAGE, "body": VECTOR}), network={"name": "two_inputs"}, normalize_input=False
    )


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small networks are fastest with one thread."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


player_named = functools.cache(lambda name: PLAYERS_BY_NAME[name]())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("rl_games")

    @functools.cache
    def export(name: str) -> Path:
        return export_policy(player_named(name), folder / f"{name.replace(' ', '_')}.onnx")

    return export


def drawn(space: spaces.Space, count: int) -> Iterator[dict[str, np.ndarray]]:
    """Raw observations of one robot."""
    rng = np.random.default_rng(1)
    parts: dict[str, Any] = dict(space.items()) if isinstance(space, spaces.Dict) else {"obs": space}
    for _ in range(count):
        yield {
            name: rng.integers(0, 256, (1, *part.shape)).astype(np.uint8)
            if part.dtype == np.uint8
            else (2 * rng.standard_normal((1, *part.shape))).astype(np.float32)
            for name, part in parts.items()
        }


def inference(player: Any) -> Callable[[Observations], np.ndarray]:
    """The player's own deterministic action. For discrete actions the player drops sizes of one."""

    def infer(values: Observations) -> np.ndarray:
        tensors = {name: torch.as_tensor(value) for name, value in values.items()}
        count = len(next(iter(tensors.values())))
        with torch.no_grad():
            obs = tensors if len(tensors) > 1 else tensors["obs"]
            action = player.get_action(obs, is_deterministic=True)
        if action.dtype != torch.int64:
            return np.asarray(action)
        return action.reshape((count, -1) if player.is_multi_discrete else (count,)).numpy()

    return infer


@pytest.mark.matrix
@pytest.mark.parametrize("name", list(PLAYERS_BY_NAME))
def test_a_file_gives_what_the_player_gives(name: str, exported: Callable[[str], Path]) -> None:
    player, outputs = player_named(name), []

    def infer(values: Observations) -> np.ndarray:
        outputs.append(inference(player)(values))
        return outputs[-1]

    observations = drawn(player.observation_space, 1_000)
    steps = assert_agrees(exported(name), infer, observations, resets=(0, 100, 101, 200), reset=player.reset)
    assert steps == 1_000
    assert len(np.unique(np.concatenate(outputs), axis=0)) > 1


def test_actions_are_brought_to_their_bounds_where_the_configuration_says_so(exported: Callable[[str], Path]) -> None:
    def extremes(name: str) -> tuple[np.ndarray, np.ndarray]:
        controller = Controller.load(exported(name))
        actions = [controller.step(values)["actions"][0] for values in random_observations({"obs": (5,)}, 1_000)]
        return np.min(actions, axis=0), np.max(actions, axis=0)

    low, high = extremes("continuous")
    np.testing.assert_allclose(low, BOUNDS.low, atol=1e-6)
    np.testing.assert_allclose(high, BOUNDS.high, atol=1e-6)
    assert (extremes("unclipped")[1] > 1).any()
    low, high = extremes("SAC with a smaller range")
    assert low.min() == pytest.approx(-0.4) and high.max() == pytest.approx(0.3)


def test_ports_are_named_and_those_of_the_critic_left_out(exported: Callable[[str], Path]) -> None:
    def ports(name: str) -> tuple[dict[str, Any], list[str]]:
        contract = ModelFile.parse(exported(name).read_bytes()).contract
        return {port.name: (port.dtype, port.shape) for port in contract.inputs}, [
            port.name for port in contract.outputs
        ]

    obs, memory = ("float32", (1, 5)), ("float32", (2, 1, 8))
    assert ports("continuous") == ({"obs": obs}, ["actions"])
    for name in ("LSTM", "separate LSTM"):
        assert ports(name) == ({"obs": obs, "h_in": memory, "c_in": memory}, ["actions", "h_out", "c_out"])
    assert ports("separate GRU")[1] == ["actions", "h_out"]
    assert ports("image")[0] == {"obs": ("uint8", (1, 12, 10, 3))}
    assert ports("dictionary")[0] == {"camera": ("uint8", (1, 12, 10, 3)), "body": obs}


def test_the_file_notes_names_rate_and_versions(tmp_path: Path) -> None:
    names = [f"joint {index}" for index in range(5)]
    player = player_named("continuous")
    path = export_policy(player, tmp_path / "policy", obs_names=names, action_names=["a", "b", "c"], rate_hz=50)
    contract = ModelFile.parse(path.read_bytes()).contract
    assert path.suffix == ".onnx" and contract.hz == 50
    assert contract.inputs[0].names == tuple(names) and contract.outputs[0].names == ("a", "b", "c")
    assert "rl-games" in dict(contract.provenance.versions)
    with pytest.raises(MetadataError, match="action_names must be a list of 3"):
        export_policy(player, tmp_path / "other", action_names=["one"])


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["separate LSTM", "multi discrete", "dictionary", "SAC"])
def test_the_number_of_robots_can_be_left_open(name: str, tmp_path: Path) -> None:
    player = PLAYERS_BY_NAME[name]()
    controller = Controller.load(export_policy(player, tmp_path / "policy", dynamic_batch=True), sizes={"batch": 3})
    player.batch_size = 3
    player.reset()
    for batch in zip(*[drawn(player.observation_space, 30)] * 3, strict=True):
        values = {key: np.concatenate([one[key] for one in batch]) for key in batch[0]}
        expected = inference(player)(values)
        assert expected.shape[0] == 3
        np.testing.assert_allclose(controller.step(values)["actions"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["continuous", "LSTM"])
def test_the_player_is_as_before(name: str, tmp_path: Path) -> None:
    player = PLAYERS_BY_NAME[name]()
    inference(player)({"obs": np.ones((1, 5), np.float32)})
    player.model.train()
    before, states = copy.deepcopy(player.model.state_dict()), copy.deepcopy(player.states)
    normalizer, random_state = player.model.running_mean_std, torch.random.get_rng_state()
    export_policy(player, tmp_path / "policy")
    after = player.model.state_dict()
    assert after.keys() == before.keys() and all(torch.equal(after[key], value) for key, value in before.items())
    assert player.model.training and normalizer.training and player.model.running_mean_std is normalizer
    assert player.model.normalize_value and all(weight.requires_grad for weight in player.model.parameters())
    assert torch.equal(torch.random.get_rng_state(), random_state)
    for one, other in zip(player.states or (), states or (), strict=True):
        assert torch.equal(one, other)


def test_a_policy_is_an_actor_that_keeps_its_state() -> None:
    actor = actor_from_player(player_named("separate LSTM"))
    observations = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    state = actor.get_state()
    assert state is not None and [tuple(part.shape) for part in state] == [(2, 1, 8)] * 2
    first, second = actor.forward(observations), actor.forward(observations)
    assert not torch.allclose(first, second)
    actor.reset(torch.tensor([True, False]))
    again = actor.forward(observations)
    torch.testing.assert_close(again[0], first[0])
    assert not torch.allclose(again[1], first[1])
    assert actor_from_player(player_named("continuous")).get_state() is None


class Environments:
    """Several gymnasium environments with the interface that rl_games expects."""

    def __init__(self, name: str, count: int):
        self.envs = [gymnasium.make(name) for _ in range(count)]
        self.spaces = self.envs[0].observation_space, self.envs[0].action_space

    def get_env_info(self) -> dict[str, Any]:
        return {"observation_space": self.spaces[0], "action_space": self.spaces[1]}

    def reset(self) -> np.ndarray:
        return np.stack([env.reset(seed=index)[0] for index, env in enumerate(self.envs)]).astype(np.float32)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        results = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        dones = np.array([terminated or truncated for _, _, terminated, truncated, _ in results])
        seen = [
            env.reset()[0] if done else result[0] for env, result, done in zip(self.envs, results, dones, strict=True)
        ]
        return np.stack(seen).astype(np.float32), np.array([result[1] for result in results], np.float32), dones, {}

    def get_number_of_agents(self) -> int:
        return 1

    def has_action_masks(self) -> bool:
        return False

    def get_env_state(self) -> dict[str, Any]:
        return {"steps": np.float64(3.0)}

    def set_env_state(self, state: Any) -> None:
        pass

    def set_train_info(self, *args: Any, **kwargs: Any) -> None:
        pass

    def close(self) -> None:
        for env in self.envs:
            env.close()


TRAINING: dict[str, Any] = {
    "normalize_advantage": True,
    "gamma": 0.99,
    "tau": 0.9,
    "learning_rate": 1e-3,
    "score_to_win": 1e9,
    "grad_norm": 1.0,
    "entropy_coef": 0.0,
    "truncate_grads": True,
    "e_clip": 0.2,
    "clip_value": False,
    "num_actors": 4,
    "horizon_length": 16,
    "minibatch_size": 32,
    "mini_epochs": 1,
    "critic_coef": 1,
    "lr_schedule": None,
    "kl_threshold": 0.008,
    "save_best_after": 1000,
    "max_epochs": 3,
    "bounds_loss_coef": 0.0,
    "print_stats": False,
    "ppo": True,
}
PENDULUM = params(**TRAINING)
CARTPOLE = params("a2c_discrete", "discrete_a2c", space={"discrete": None}, **TRAINING)
SAC_TRAINING: dict[str, Any] = {
    "batch_size": 8,
    "init_alpha": 1.0,
    "learnable_temperature": True,
    "replay_buffer_size": 64,
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "alpha_lr": 1e-3,
    "num_actors": 4,
    "max_epochs": 2,
}
SAC_PENDULUM = params("sac", "soft_actor_critic", network=SAC_NETWORK, **SAC_TRAINING)
CONFIGS = {"Pendulum-v1": PENDULUM, "CartPole-v1": CARTPOLE}


@pytest.fixture(scope="module")
def agent_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """rl_games agents. The PPO agents are trained for a few steps."""
    folder = tmp_path_factory.mktemp("training")

    @functools.cache
    def make(environment: str, algorithm: str = "ppo") -> Any:
        from rl_games.algos_torch.a2c_continuous import A2CAgent
        from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
        from rl_games.algos_torch.sac_agent import SACAgent
        from rl_games.common.algo_observer import DefaultAlgoObserver
        from rl_games.common.tr_helpers import DefaultRewardsShaper

        config = copy.deepcopy(SAC_PENDULUM if algorithm == "sac" else CONFIGS[environment])["params"]
        environments = Environments(environment, 4)
        config["config"] |= {
            "vec_env": environments,
            "env_info": environments.get_env_info(),
            "train_dir": str(folder),
            "reward_shaper": DefaultRewardsShaper(scale_value=0.1),
            "features": {"observer": DefaultAlgoObserver()},
        }
        kinds = {"a2c_continuous": A2CAgent, "a2c_discrete": DiscreteA2CAgent, "sac": SACAgent}
        with contextlib.redirect_stdout(io.StringIO()):
            torch.manual_seed(0)
            agent = kinds[config["algo"]["name"]]("run", config)
            if algorithm == "ppo":
                agent.train()
        return agent

    return make


def restored(agent: Any, config: dict[str, Any]) -> Any:
    """A player with the weights of an agent."""
    player = player_of(config, agent.env_info["observation_space"], agent.env_info["action_space"])
    player.set_weights(agent.get_weights())
    return player


@pytest.fixture(scope="module")
def checkpoint(agent_for: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "agent"
    agent = agent_for("Pendulum-v1")
    agent.last_mean_rewards = np.float32(-7.0)
    with contextlib.redirect_stdout(io.StringIO()):
        agent.save(str(path))
    return path.with_suffix(".pth")


def episode(environment: str, choose: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The observations and rewards of 200 steps with a policy."""
    env, seen = gymnasium.make(environment), []
    obs, _ = env.reset(seed=7)
    for _ in range(200):
        obs, reward, terminated, truncated, _ = env.step(choose(np.asarray(obs, np.float32)[None])[0])
        seen.append([*obs, reward])
        if terminated or truncated:
            obs, _ = env.reset()
    env.close()
    return np.array(seen)


@pytest.mark.parametrize("environment", list(CONFIGS))
def test_an_episode_goes_as_with_the_player(environment: str, agent_for: Callable[..., Any], tmp_path: Path) -> None:
    agent = agent_for(environment)
    player = restored(agent, CONFIGS[environment])
    assert float(player.model.running_mean_std.count) > 100
    controller = Controller.load(export_policy(agent, tmp_path / "policy"))
    ours = episode(environment, lambda obs: controller.step({"obs": obs})["actions"])
    theirs = episode(environment, lambda obs: inference(player)({"obs": obs}))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_an_agent_whose_model_torch_compiles_is_exported_as_well(agent_for: Callable[..., Any]) -> None:
    agent = copy.copy(agent_for("Pendulum-v1"))
    expected = actor_from_agent(agent).forward(torch.ones(2, 3))
    agent.model = torch.compile(agent.model)
    torch.testing.assert_close(actor_from_agent(agent).forward(torch.ones(2, 3)), expected)


def test_the_agent_of_sac_rescales_and_its_player_does_not(agent_for: Callable[..., Any], tmp_path: Path) -> None:
    agent = agent_for("Pendulum-v1", "sac")
    observations = 3 * torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    agent.model.eval()
    with torch.no_grad():
        expected = agent.act(observations, 1, sample=False)
    torch.testing.assert_close(actor_from_agent(agent).forward(observations), expected)
    player = sac_player(agent)
    given = actor_from_player(player).forward(observations)
    np.testing.assert_allclose(given.numpy(), inference(player)({"obs": observations.numpy()}), atol=1e-6)
    torch.testing.assert_close(2 * given, expected)
    path = tmp_path / "sac"
    with contextlib.redirect_stdout(io.StringIO()):
        agent.save(str(path))
    with pytest.raises(
        CheckpointError, match=r"SAC agent rescales .* but the player of this rl_games version does not"
    ):
        actor_from_checkpoint(
            path.with_suffix(".pth"), config=SAC_PENDULUM, action_space=agent.env_info["action_space"]
        )
    unit = spaces.Box(-1, 1, (1,))
    actor = actor_from_checkpoint(path.with_suffix(".pth"), config=SAC_PENDULUM, action_space=unit)
    torch.testing.assert_close(2 * actor.forward(observations), expected)
    silent = params("sac", "soft_actor_critic", network=SAC_NETWORK, normalize_input=False)
    with pytest.raises(CheckpointError, match=r"contains observation statistics .* normalize_input is False"):
        actor_from_checkpoint(path.with_suffix(".pth"), config=silent, action_space=unit)


def sac_player(agent: Any) -> Any:
    player = player_of(SAC_PENDULUM, agent.env_info["observation_space"], agent.env_info["action_space"])
    player.model.load_state_dict(agent.model.state_dict())
    return player


def test_a_checkpoint_with_its_configuration_is_the_agent(
    checkpoint: Path, agent_for: Callable[..., Any], tmp_path: Path
) -> None:
    import yaml

    agent = agent_for("Pendulum-v1")
    file = tmp_path / "ppo.yaml"
    file.write_text(yaml.safe_dump(PENDULUM))
    random_state = torch.random.get_rng_state()
    space = agent.env_info["action_space"]
    path = export_policy(checkpoint, tmp_path / "policy", config=file, action_space=space)
    assert torch.equal(torch.random.get_rng_state(), random_state)
    player = restored(agent, PENDULUM)
    assert assert_agrees(path, inference(player), random_observations({"obs": (3,)})) == 1_000


@pytest.mark.parametrize(
    "name", ["unclipped", "discrete", "multi discrete", "LSTM", "separate GRU", "separate", "image", "tanh"]
)
def test_sizes_are_read_from_the_weights_where_they_tell_them(name: str, tmp_path: Path) -> None:
    player, path = player_named(name), tmp_path / "model.pth"
    weights = {f"_orig_mod.{key}": value for key, value in player.model.state_dict().items()}
    torch.save({"model": weights}, path)
    given = {"observation_space": player.observation_space} if name == "image" else {}
    if name in ("LSTM", "separate", "image", "tanh"):
        given["action_space"] = player.action_space
    actor = actor_from_checkpoint(path, config=configuration_of(name), **given)
    player.reset()
    for values in drawn(player.observation_space, 50):
        expected = inference(player)(values)
        np.testing.assert_allclose(
            actor.forward(torch.as_tensor(values["obs"])).numpy(), expected, rtol=1e-5, atol=1e-5
        )
    player.reset()


def configuration_of(name: str) -> dict[str, Any]:
    return {
        "unclipped": params(clip_actions=False, normalize_input=False),
        "discrete": params("a2c_discrete", "discrete_a2c", space={"discrete": None}),
        "multi discrete": params("a2c_discrete", "multi_discrete_a2c", space={"multi_discrete": None}),
        "LSTM": params(network={"rnn": LSTM}),
        "separate GRU": params(
            "a2c_discrete", "discrete_a2c", space={"discrete": None}, network={"rnn": GRU, "separate": True}
        ),
        "separate": params(network={"separate": True}, clip_actions=True),
        "image": params(network={"cnn": CNN}, normalize_input=False),
        "tanh": params(model="continuous_a2c_tanh"),
    }[name]


def test_statistics_beside_the_model_are_used(tmp_path: Path) -> None:
    player, path = player_named("discrete"), tmp_path / "old.pth"
    weights = player.model.state_dict()
    prefix = "running_mean_std."
    beside = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
    inside = {key: value for key, value in weights.items() if not key.startswith(prefix)}
    torch.save({"model": inside, "running_mean_std": beside}, path)
    actor = actor_from_checkpoint(path, config=configuration_of("discrete"))
    for values in drawn(VECTOR, 50):
        got = actor.forward(torch.as_tensor(values["obs"])).numpy()
        np.testing.assert_array_equal(got, inference(player)(values))


def test_what_a_checkpoint_does_not_hold_is_asked_for(checkpoint: Path, tmp_path: Path) -> None:
    bare = {"params": {"algo": {"name": "a2c_continuous"}, "config": {}}}
    with pytest.raises(
        CheckpointError,
        match=r"Missing: params\.model\.name in config, params\.network\.name in config, "
        r"params\.config\.normalize_input in config, params\.config\.clip_actions in config",
    ):
        actor_from_checkpoint(checkpoint, config=bare)
    with pytest.raises(CheckpointError, match=r"Missing: action_space= \(actions are rescaled to its bounds\)"):
        actor_from_checkpoint(checkpoint, config=PENDULUM)
    torch.save({"model": player_named("image").model.state_dict()}, tmp_path / "image.pth")
    with pytest.raises(
        CheckpointError, match=r"Missing: observation_space= \(it cannot be read from the weights\), action_spa"
    ):
        actor_from_checkpoint(tmp_path / "image.pth", config=configuration_of("image"))
    with pytest.raises(CheckpointError, match="must have an entry `params`"):
        actor_from_checkpoint(checkpoint, config={})
    with pytest.raises(CheckpointError, match="Configuration not found"):
        actor_from_checkpoint(checkpoint, config=tmp_path / "none.yaml")
    with pytest.raises(CheckpointError, match=r"no architecture\. Give config="):
        export_policy(checkpoint, tmp_path / "policy")


def test_what_does_not_fit_a_checkpoint_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    space = spaces.Box(-2, 2, (1,))
    wider = params(network={"mlp": MLP | {"units": [32, 16]}})
    for config, message in (
        (wider, "does not match the network of the configuration: size mismatch"),
        (params(normalize_input=False), "unknown running_mean_std"),
        (params(algorithm="my_own"), "use actor_from_player"),
        (params(model="none"), "rl_games cannot build the player"),
    ):
        with pytest.raises(CheckpointError, match=message):
            actor_from_checkpoint(checkpoint, config=config, action_space=space)
    other = tmp_path / "other.pth"
    torch.save({"actor_state_dict": {}}, other)
    with pytest.raises(CheckpointError, match="not a checkpoint of rl_games: looked for 'model' or 'actor'"):
        actor_from_checkpoint(other, config=PENDULUM, action_space=space)
    with pytest.raises(CheckpointError, match="Checkpoint not found"):
        actor_from_checkpoint(tmp_path / "none.pth", config=PENDULUM, action_space=space)


def test_players_that_cannot_be_exported_are_refused() -> None:
    masked = copy.copy(player_named("discrete"))
    masked.use_action_masks = True
    masked_by_environment = copy.copy(player_named("discrete"))
    masked_by_environment.env = SimpleNamespace(has_action_mask=lambda: True)
    misfit = copy.copy(player_named("continuous"))
    misfit.observation_space = spaces.Box(-1, 1, (4,))
    unbounded = copy.copy(player_named("continuous"))
    unbounded.actions_low = torch.full((3,), -torch.inf)
    counted = copy.copy(player_named("continuous"))
    counted.observation_space = spaces.Discrete(3)
    for player, message in (
        (masked, "uses action masks of the environment"),
        (masked_by_environment, "uses action masks of the environment"),
        (misfit, r"running_mean_std has statistics of shape \(5,\)"),
        (unbounded, "Use an action space with finite bounds"),
        (counted, "space of 'obs' must be a Box"),
        (continuous(model="continuous_a2c"), "fails on observations from its space: UnboundLocalError"),
    ):
        with pytest.raises(PolicyError, match=message):
            actor_from_player(player)


def test_a_model_that_always_draws_random_numbers_is_refused() -> None:
    player = copy.copy(player_named("continuous"))
    player.model = copy.deepcopy(player.model)

    class Restless(torch.nn.Module):
        def forward(self, values: dict[str, Any]) -> Any:
            mu = torch.rand(len(values["obs"]), 3)
            return mu, mu * 0, mu[:, :1], None

        def is_rnn(self) -> bool:
            return False

    player.model.a2c_network = Restless()
    with pytest.raises(PolicyError, match="different actions for the same observation"):
        actor_from_player(player)


def test_objects_of_other_libraries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no model of rl_games: looked for `model`"):
        actor_from_player(object())

    class Other:
        model = torch.nn.Linear(2, 2)

    with pytest.raises(PolicyError, match="with `a2c_network` or `sac_network`"):
        actor_from_agent(Other())
    with pytest.raises(PolicyError, match="has its own config"):
        export_policy(player_named("continuous"), tmp_path / "policy", config={})


def test_without_rl_games_the_module_loads_and_says_what_to_install(checkpoint: Path) -> None:
    code = f"""
    import json, sys
    sys.modules["rl_games"] = None
    from gymnasium.spaces import Box
    from exploy.exporter.frameworks.rl_games import actor_from_checkpoint
    config = json.loads({json.dumps(PENDULUM)!r})
    actor_from_checkpoint({str(checkpoint)!r}, config=config, action_space=Box(-2, 2))
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert "PolicyError" in result.stderr and "pip install 'exploy[rl-games]'" in result.stderr
