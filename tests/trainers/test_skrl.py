"""skrl policies return the actions of skrl's own evaluation."""

import copy
import functools
import importlib
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
from exploy.exporter.frameworks.skrl import (
    actor_from_agent,
    actor_from_checkpoint,
    actor_from_model,
    actor_from_runner,
    export_policy,
)
from exploy.policy.copies import own_copy
from exploy.runtime import Controller
from exploy.runtime.model_file import ModelFile
from tests.support.policies import Observations, assert_agrees, random_observations

pytestmark = pytest.mark.expensive

pytest.importorskip("skrl")

OLD_RELEASE = "1.4.3"
QUIET = {"experiment": {"write_interval": 0, "checkpoint_interval": 0}}


def box(*shape: int, bound: float = np.inf) -> spaces.Box:
    return spaces.Box(-bound, bound, shape)


IMAGE = spaces.Box(0, 255, (12, 10, 3), np.uint8)
MIXED = spaces.Dict({"velocity": box(2), "camera": IMAGE, "mode": spaces.Discrete(3)})
LAYERS: list[dict[str, Any]] = [{"name": "net", "input": "OBSERVATIONS", "layers": [16, 16], "activations": "elu"}]
CONVOLUTIONS: list[dict[str, Any]] = [
    {
        "name": "features",
        "input": "permute(OBSERVATIONS, (0, 3, 1, 2)) / 255",
        "layers": [{"conv2d": {"out_channels": 4, "kernel_size": 3, "stride": 2}}, "flatten"],
        "activations": "relu",
    },
    {"name": "net", "input": "features", "layers": [16], "activations": "elu"},
]
BY_KEY: list[dict[str, Any]] = [
    {**CONVOLUTIONS[0], "input": "permute(OBSERVATIONS['camera'], (0, 3, 1, 2)) / 255"},
    {
        "name": "net",
        "input": "concatenate([features, OBSERVATIONS['velocity'], "
        "one_hot_encoding(OBSERVATION_SPACE['mode'], OBSERVATIONS['mode'])])",
        "layers": [16],
        "activations": "elu",
    },
]


def instance(kind: str, role: str = "policy", **options: Any) -> Any:
    """A model built by skrl, with new random weights."""
    from skrl.utils.model_instantiators import torch as instantiators

    torch.manual_seed(3)
    options = {"network": LAYERS, "output": "ACTIONS", "device": "cpu"} | options
    model = getattr(instantiators, f"{kind}_model")(**options)
    model.init_state_dict(role=role)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def recurrent_model(rnn: type[torch.nn.Module], observations: spaces.Space, actions: spaces.Space) -> Any:
    """One network for policy and value, written like typical skrl user code."""
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model

    class Recurrent(GaussianMixin, DeterministicMixin, Model):
        def __init__(self) -> None:
            Model.__init__(self, observation_space=observations, action_space=actions, device="cpu")
            GaussianMixin.__init__(self, role="policy")
            DeterministicMixin.__init__(self, role="value")
            self.rnn = rnn(self.num_observations, 8, num_layers=2, batch_first=True)
            self.policy_layer = torch.nn.Linear(8, self.num_actions)
            self.value_layer = torch.nn.Linear(8, 1)
            self.log_std = torch.nn.Parameter(torch.zeros(self.num_actions))

        def get_specification(self) -> dict[str, Any]:
            count = 2 if rnn is torch.nn.LSTM else 1
            return {"rnn": {"sequence_length": 4, "sizes": [(2, 1, 8)] * count}}

        def act(self, inputs: dict[str, Any], *, role: str = "") -> Any:
            return (GaussianMixin if role == "policy" else DeterministicMixin).act(self, inputs, role=role)

        def compute(self, inputs: dict[str, Any], role: str = "") -> Any:
            observations = inputs["observations"]
            sequence = 4 if self.training else 1
            states = tuple(inputs["rnn"])
            memory = states if rnn is torch.nn.LSTM else states[0]
            features, memory = self.rnn(observations.view(-1, sequence, observations.shape[-1]), memory)
            features = torch.flatten(features, 0, 1)
            remembered = {"rnn": list(memory) if rnn is torch.nn.LSTM else [memory]}
            if role == "value":
                return self.value_layer(features), remembered
            return torch.tanh(self.policy_layer(features)), {"log_std": self.log_std, **remembered}

    torch.manual_seed(4)
    return Recurrent()


def scaler(space: spaces.Space) -> Any:
    """A scaler that has seen some observations."""
    from skrl.resources.preprocessors.torch import RunningStandardScaler

    made = RunningStandardScaler(size=space, epsilon=1e-6, clip_threshold=2.5, device="cpu")
    generator = torch.Generator().manual_seed(5)
    made(3 * torch.randn(64, made.running_mean.shape[0], generator=generator) + 1, train=True)
    return made


def agent_of(kind: str, models: dict[str, Any], *, scaled: bool = True, **cfg: Any) -> Any:
    """An agent of skrl, ready for evaluation."""
    package = importlib.import_module(f"skrl.agents.torch.{kind.split('_')[0].lower()}")
    first = next(iter(models.values()))
    agent = getattr(package, kind)(
        models=models,
        observation_space=first.observation_space,
        state_space=first.state_space,
        action_space=first.action_space,
        device="cpu",
        cfg={**copy.deepcopy(QUIET), **cfg},
    )
    if scaled:
        agent._observation_preprocessor = scaler(first.observation_space)
        agent.checkpoint_modules["observation_preprocessor"] = agent._observation_preprocessor
    agent.init()
    agent.enable_training_mode(False)
    return agent


def silent_noise() -> Any:
    from skrl.resources.noises.torch import GaussianNoise

    return GaussianNoise(mean=0.0, std=0.0, device="cpu")


def spaces_of(observations: spaces.Space, actions: spaces.Space) -> dict[str, Any]:
    return {"observation_space": observations, "action_space": actions}


def ppo(kind: str, actions: spaces.Space, observations: spaces.Space | None = None, **options: Any) -> Any:
    known = spaces_of(box(5) if observations is None else observations, actions)
    scaled = options.pop("scaled", True)
    return agent_of("PPO", {"policy": instance(kind, **known, **options)}, scaled=scaled)


def shared_ppo() -> Any:
    from skrl.utils.model_instantiators.torch import shared_model

    torch.manual_seed(6)
    model = shared_model(
        **spaces_of(box(5), box(3, bound=0.4)),
        device="cpu",
        structure=["GaussianMixin", "DeterministicMixin"],
        roles=["policy", "value"],
        parameters=[
            {"clip_mean_actions": True, "network": LAYERS, "output": "3 * ACTIONS"},
            {"network": LAYERS, "output": "ONE"},
        ],
    )
    for role in ("policy", "value"):
        model.init_state_dict(role=role)
    return agent_of("PPO", {"policy": model, "value": model})


def ppo_that_reads_states() -> Any:
    network = [{**LAYERS[0], "input": "concatenate([OBSERVATIONS, STATES])"}]
    known = spaces_of(box(5), box(2)) | {"state_space": box(4)}
    agent = agent_of("PPO", {"policy": instance("gaussian", network=network, **known)})
    agent._state_preprocessor = scaler(box(4))
    return agent


def td3() -> Any:
    policy = instance("deterministic", **spaces_of(box(5), box(2, bound=0.3)))
    return agent_of("TD3", {"policy": policy}, exploration_noise=lambda: silent_noise())


def recurrent_ppo(rnn: type[torch.nn.Module]) -> Any:
    model = recurrent_model(rnn, box(5), box(2))
    return agent_of("PPO_RNN", {"policy": model, "value": model})


AGENTS: dict[str, Callable[[], Any]] = {
    "gaussian": lambda: ppo("gaussian", box(3, bound=0.4), clip_mean_actions=True),
    "gaussian that is clipped only when sampled": lambda: ppo("gaussian", box(3, bound=0.1), clip_actions=True),
    "multivariate gaussian": lambda: ppo("multivariate_gaussian", box(3)),
    "categorical": lambda: ppo("categorical", spaces.Discrete(4)),
    "probabilities": lambda: ppo(
        "categorical", spaces.Discrete(4), unnormalized_log_prob=False, output="sigmoid(ACTIONS)"
    ),
    "multi categorical": lambda: ppo("multicategorical", spaces.MultiDiscrete([3, 2, 4])),
    "shared model": shared_ppo,
    "states": ppo_that_reads_states,
    "SAC": lambda: agent_of(
        "SAC", {"policy": instance("gaussian", **spaces_of(box(5), box(2)), output="tanh(ACTIONS)")}
    ),
    "TD3": td3,
    "DQN": lambda: agent_of(
        "DQN", {"q_network": instance("deterministic", "q_network", **spaces_of(box(5), spaces.Discrete(4)))}
    ),
    "LSTM": lambda: recurrent_ppo(torch.nn.LSTM),
    "GRU": lambda: recurrent_ppo(torch.nn.GRU),
    "image": lambda: ppo("gaussian", box(2), IMAGE, network=CONVOLUTIONS, scaled=False),
    "dictionary": lambda: ppo("gaussian", box(2), MIXED, network=BY_KEY, scaled=False),
    "index": lambda: ppo(
        "gaussian",
        box(2),
        spaces.Discrete(5),
        network=[{**LAYERS[0], "input": "one_hot_encoding(OBSERVATION_SPACE, OBSERVATIONS)"}],
        scaled=False,
    ),
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small networks are fastest with one thread."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


agent_named = functools.cache(lambda name: AGENTS[name]())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("skrl")

    @functools.cache
    def export(name: str) -> Path:
        return export_policy(agent_named(name), folder / f"{name.replace(' ', '_')}.onnx")

    return export


def act(agent: Any, observations: torch.Tensor, states: torch.Tensor | None = None) -> np.ndarray:
    """The action that skrl's trainers send to the environment in evaluation, but with the mode instead of samples."""
    with torch.no_grad():
        actions, outputs = agent.act(observations, states, timestep=0, timesteps=1)
        if "net_output" in outputs:
            nvec = getattr(agent.action_space, "nvec", [outputs["net_output"].shape[-1]])
            parts = torch.split(outputs["net_output"], list(nvec), dim=-1)
            return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1).numpy()
        chosen = outputs.get("mean_actions", actions)
        if getattr(agent, "_rnn", False):
            end_step(agent, len(observations), done=False)
        return chosen.numpy()


def end_step(agent: Any, count: int, *, done: bool) -> None:
    flags = torch.full((count, 1), done)
    nothing = dict.fromkeys(
        ("observations", "states", "actions", "rewards", "next_observations", "next_states", "infos")
    )
    agent.record_transition(**nothing, terminated=flags, truncated=flags & False, timestep=0, timesteps=1)


def inference(agent: Any) -> Callable[[Observations], np.ndarray]:
    from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space

    def infer(values: Observations) -> np.ndarray:
        space = agent.observation_space
        raw = values if isinstance(space, spaces.Dict) else values["obs"]
        observations = flatten_tensorized_space(tensorize_space(space, raw, device="cpu"))
        states = torch.as_tensor(values["states"]) if "states" in values else None
        return act(agent, observations, states)

    return infer


def drawn(space: spaces.Space, count: int, *, port: str = "obs") -> Iterator[dict[str, np.ndarray]]:
    """Raw observations of one robot."""
    rng = np.random.default_rng(1)
    parts: dict[str, Any] = {port: space} if not isinstance(space, spaces.Dict) else dict(space.items())
    for _ in range(count):
        values: dict[str, np.ndarray] = {}
        for name, part in parts.items():
            if isinstance(part, spaces.Discrete):
                values[name] = rng.integers(0, part.n, (1, 1))
            elif part.dtype == np.uint8:
                values[name] = rng.integers(0, 256, (1, *part.shape)).astype(np.uint8)
            else:
                values[name] = (2 * rng.standard_normal((1, *part.shape))).astype(np.float32)
        yield values


@pytest.mark.matrix
@pytest.mark.parametrize("name", list(AGENTS))
def test_a_file_gives_what_the_agent_gives_in_evaluation(name: str, exported: Callable[[str], Path]) -> None:
    agent = agent_named(name)
    observations = list(drawn(agent.observation_space, 1_000))
    if agent.state_space is not None:
        stated = drawn(agent.state_space, 1_000, port="states")
        observations = [{**one, **other} for one, other in zip(observations, stated, strict=True)]
    outputs = []

    def infer(values: Observations) -> np.ndarray:
        outputs.append(inference(agent)(values))
        return outputs[-1]

    resets = (0, 100, 101, 200)
    steps = assert_agrees(exported(name), infer, observations, resets=resets, reset=lambda: end_episode(agent))
    assert steps == 1_000
    assert len(np.unique(np.concatenate(outputs), axis=0)) > 1


def end_episode(agent: Any) -> None:
    if not getattr(agent, "_rnn", False):
        return
    if not agent._rnn_final_states["policy"]:
        return
    end_step(agent, 1, done=True)
    assert all(float(state.abs().sum()) == 0 for state in agent._rnn_initial_states["policy"])


def test_clips_are_those_that_evaluation_makes(exported: Callable[[str], Path]) -> None:
    def largest(name: str) -> float:
        controller = Controller.load(exported(name))
        return max(
            np.abs(controller.step(values)["actions"]).max() for values in random_observations({"obs": (5,)}, 200)
        )

    assert largest("gaussian") == pytest.approx(0.4)
    assert largest("gaussian that is clipped only when sampled") > 0.1
    assert largest("TD3") == pytest.approx(0.3)


def test_ports_are_named_after_the_space(exported: Callable[[str], Path]) -> None:
    def ports(name: str) -> tuple[dict[str, Any], list[str]]:
        contract = ModelFile.parse(exported(name).read_bytes()).contract
        return {port.name: (port.dtype, port.shape) for port in contract.inputs}, [
            port.name for port in contract.outputs
        ]

    assert ports("dictionary") == (
        {"camera": ("uint8", (1, 12, 10, 3)), "mode": ("int64", (1, 1)), "velocity": ("float32", (1, 2))},
        ["actions"],
    )
    assert ports("states")[0] == {"obs": ("float32", (1, 5)), "states": ("float32", (1, 4))}
    memory = ("float32", (2, 1, 8))
    assert ports("LSTM") == (
        {"obs": ("float32", (1, 5)), "h_in": memory, "c_in": memory},
        ["actions", "h_out", "c_out"],
    )
    assert ports("GRU")[1] == ["actions", "h_out"]


def test_spaces_inside_spaces_have_a_port_for_each_part() -> None:
    from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space

    legs = spaces.Tuple([box(1), spaces.MultiDiscrete([3, 4])])
    space = spaces.Dict({"legs": legs, "arm": spaces.Dict({"y": box(1), "x": box(2)})})
    parts = "OBSERVATIONS['legs'][0], OBSERVATIONS['arm']['x'], OBSERVATIONS['arm']['y']"
    one_hot = "one_hot_encoding(OBSERVATION_SPACE['legs'][1], OBSERVATIONS['legs'][1])"
    network = [{**LAYERS[0], "input": f"concatenate([{parts}, {one_hot}])"}]
    agent = ppo("gaussian", box(2), space, network=network, scaled=False)
    actor = actor_from_agent(agent)
    assert [item.name for item in actor.inputs] == ["arm_x", "arm_y", "legs_0", "legs_1"]
    space.seed(0)
    for _ in range(50):
        raw = space.sample()
        flat = flatten_tensorized_space(tensorize_space(space, raw, device="cpu"))
        leaves = (raw["arm"]["x"], raw["arm"]["y"], raw["legs"][0], raw["legs"][1])
        values = {item.name: torch.as_tensor(leaf)[None] for item, leaf in zip(actor.inputs, leaves, strict=True)}
        np.testing.assert_allclose(actor.forward(values).numpy(), act(agent, flat), rtol=1e-5, atol=1e-5)
    with pytest.raises(PolicyError, match="would have the name a_b"):
        actor_from_model(agent.policy, observation_space=spaces.Dict({"a": spaces.Dict({"b": box(1)}), "a_b": box(1)}))


def test_the_file_notes_names_rate_and_versions(tmp_path: Path) -> None:
    names = [f"joint {index}" for index in range(5)]
    path = export_policy(
        agent_named("gaussian"), tmp_path / "policy", obs_names=names, action_names=["a", "b", "c"], rate_hz=50
    )
    contract = ModelFile.parse(path.read_bytes()).contract
    assert path.suffix == ".onnx" and contract.hz == 50
    assert contract.inputs[0].names == tuple(names) and contract.outputs[0].names == ("a", "b", "c")
    assert "skrl" in dict(contract.provenance.versions)
    with pytest.raises(MetadataError, match="obs_names must be a list of 5"):
        export_policy(agent_named("gaussian"), tmp_path / "other", obs_names=["one"])


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["LSTM", "dictionary", "multi categorical"])
def test_the_number_of_robots_can_be_left_open(name: str, tmp_path: Path) -> None:
    agent = copy.deepcopy(agent_named(name))
    path = export_policy(agent, tmp_path / "policy", dynamic_batch=True)
    if name == "LSTM":
        agent._rnn_initial_states["policy"] = [torch.zeros(2, 3, 8), torch.zeros(2, 3, 8)]
    controller = Controller.load(path, sizes={"batch": 3})
    batches = list(zip(*[iter(drawn(agent.observation_space, 30))] * 3, strict=True))
    for batch in batches:
        values = {key: np.concatenate([one[key] for one in batch]) for key in batch[0]}
        expected = inference(agent)(values)
        assert expected.shape[0] == 3
        np.testing.assert_allclose(controller.step(values)["actions"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "LSTM"])
def test_the_training_object_is_as_before(name: str, tmp_path: Path) -> None:
    agent = AGENTS[name]()
    agent.enable_training_mode(True, apply_to_models=True)
    agent.policy.act({"observations": torch.zeros(4, 5), "rnn": [torch.zeros(2, 1, 8)] * 2}, role="policy")
    modules = {"policy": agent.policy, "scaler": agent._observation_preprocessor}
    before = copy.deepcopy({key: module.state_dict() for key, module in modules.items()})
    distribution, random_state = agent.policy._g_distribution, torch.random.get_rng_state()
    export_policy(agent, tmp_path / "policy")
    for key, module in modules.items():
        after = module.state_dict()
        assert after.keys() == before[key].keys()
        assert all(torch.equal(after[entry], value) for entry, value in before[key].items())
    assert agent.training and agent.policy.training and agent.policy._g_distribution is distribution
    assert all(parameter.requires_grad for parameter in agent.policy.parameters())
    assert torch.equal(torch.random.get_rng_state(), random_state)


def test_a_policy_is_an_actor_that_keeps_its_state() -> None:
    actor = actor_from_agent(agent_named("LSTM"))
    observations = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    state = actor.get_state()
    assert state is not None and [tuple(part.shape) for part in state] == [(2, 1, 8)] * 2
    first, second = actor.forward(observations), actor.forward(observations)
    assert not torch.allclose(first, second)
    actor.reset(torch.tensor([True, False]))
    again = actor.forward(observations)
    torch.testing.assert_close(again[0], first[0])
    assert not torch.allclose(again[1], first[1])
    assert actor_from_agent(agent_named("gaussian")).get_state() is None


CONFIG: dict[str, Any] = {
    "seed": 2,
    "models": {
        "separate": False,
        "policy": {"class": "GaussianMixin", "clip_actions": False, "network": LAYERS, "output": "2 * tanh(ACTIONS)"},
        "value": {"class": "DeterministicMixin", "network": LAYERS, "output": "ONE"},
    },
    "memory": {"class": "RandomMemory", "memory_size": -1},
    "agent": {
        "class": "PPO",
        "rollouts": 32,
        "learning_epochs": 2,
        "mini_batches": 2,
        "observation_preprocessor": "RunningStandardScaler",
        "observation_preprocessor_kwargs": {"clip_threshold": 3.0},
        "value_preprocessor": "RunningStandardScaler",
        "value_preprocessor_kwargs": None,
        "experiment": {"write_interval": 0, "checkpoint_interval": 0},
    },
    "trainer": {
        "class": "SequentialTrainer",
        "timesteps": 128,
        "disable_progressbar": True,
        "headless": True,
        "close_environment_at_exit": False,
    },
}


def trained(environment: str, config: dict[str, Any]) -> Any:
    """A runner that was trained for a few steps."""
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.utils.runner.torch import Runner

    random_state = torch.random.get_rng_state()
    runner = Runner(wrap_env(gymnasium.make(environment), verbose=False), copy.deepcopy(config))
    runner.run("train")
    runner.agent.enable_training_mode(False)
    torch.random.set_rng_state(random_state)
    return runner


@functools.cache
def trained_on_pendulum() -> Any:
    return trained("Pendulum-v1", CONFIG)


@functools.cache
def trained_on_cartpole() -> Any:
    config = copy.deepcopy(CONFIG)
    config["models"]["separate"] = True
    config["models"]["policy"] = {"class": "CategoricalMixin", "network": LAYERS, "output": "ACTIONS"}
    return trained("CartPole-v1", config)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "agent.pt"
    trained_on_pendulum().agent.save(str(path))
    return path


def episode(environment: str, steps: int, choose: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The observations and rewards of episodes with a policy."""
    env, seen = gymnasium.make(environment), []
    obs, _ = env.reset(seed=7)
    for _ in range(steps):
        action = choose(np.asarray(obs, np.float32)[None])[0]
        obs, reward, terminated, truncated, _ = env.step(
            action if isinstance(env.action_space, spaces.Box) else action[0]
        )
        seen.append([*obs, reward])
        if terminated or truncated:
            obs, _ = env.reset()
    env.close()
    return np.array(seen)


@pytest.mark.parametrize(
    ("environment", "train", "steps"),
    [("Pendulum-v1", trained_on_pendulum, 200), ("CartPole-v1", trained_on_cartpole, 200)],
)
def test_an_episode_goes_as_with_skrl(environment: str, train: Callable[[], Any], steps: int, tmp_path: Path) -> None:
    runner = train()
    controller = Controller.load(export_policy(runner, tmp_path / "policy"))
    ours = episode(environment, steps, lambda obs: controller.step({"obs": obs})["actions"])
    theirs = episode(environment, steps, lambda obs: act(runner.agent, torch.as_tensor(obs)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_the_actor_of_a_runner_is_that_of_its_agent() -> None:
    runner, obs = trained_on_pendulum(), torch.tensor([[0.1, 0.2, 0.3]])
    expected = actor_from_agent(runner.agent).forward(obs)
    torch.testing.assert_close(actor_from_runner(runner).forward(obs), expected)


def test_a_checkpoint_with_its_configuration_is_the_agent(checkpoint: Path, tmp_path: Path) -> None:
    import yaml

    file = tmp_path / "ppo.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    agent = trained_on_pendulum().agent
    known = spaces_of(agent.observation_space, agent.action_space)
    random_state = torch.random.get_rng_state()
    path = export_policy(checkpoint, tmp_path / "policy", config=file, **known)
    assert torch.equal(torch.random.get_rng_state(), random_state)
    assert assert_agrees(path, inference(agent), random_observations({"obs": (3,)})) == 1_000


def test_states_that_a_policy_may_do_without_are_read_if_they_matter() -> None:
    """A model that works without states, but returns different actions with them."""
    model = instance("gaussian", **spaces_of(box(5), box(2)) | {"state_space": box(4)})
    without = [item.name for item in actor_from_model(model).inputs]
    plain = model.compute

    def compute(inputs: Any, role: str = "") -> Any:
        mean, outputs = plain(inputs, role)
        stated = inputs.get("states")
        return (mean if stated is None else mean + stated[:, :2]), outputs

    model.compute = compute
    assert (without, [item.name for item in actor_from_model(model).inputs]) == (["obs"], ["obs", "states"])


def test_a_checkpoint_with_its_model_is_the_agent(checkpoint: Path) -> None:
    agent = trained_on_pendulum().agent
    model, untrained = own_copy(agent.policy), own_copy(agent._observation_preprocessor)
    with torch.no_grad():
        for tensor in (*model.parameters(), *untrained.buffers()):
            tensor.fill_(0.5)
    actor = actor_from_checkpoint(checkpoint, policy=model, preprocessor=untrained)
    observations = 3 * torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(actor.forward(observations).numpy(), act(agent, observations), rtol=1e-5, atol=1e-5)
    assert all(bool((parameter == 0.5).all()) for parameter in model.parameters())


def test_what_a_checkpoint_does_not_hold_is_asked_for(checkpoint: Path, tmp_path: Path) -> None:
    agent = trained_on_pendulum().agent
    known = spaces_of(agent.observation_space, agent.action_space)
    with pytest.raises(CheckpointError, match=r"policy= .* or config= "):
        actor_from_checkpoint(checkpoint)
    with pytest.raises(
        CheckpointError, match=r"agent\.class in config, models in config, observation_space=, action_spac"
    ):
        actor_from_checkpoint(checkpoint, config={})
    sparse = {"agent": {"class": "PPO"}, "models": {"policy": {"class": "GaussianMixin"}}}
    with pytest.raises(CheckpointError, match=r"models\.separate .*models\.policy\.network .*models\.policy\.output"):
        actor_from_checkpoint(checkpoint, config=sparse, **known)
    with pytest.raises(CheckpointError, match=r"epsilon and clip threshold\. Give preprocessor="):
        actor_from_checkpoint(checkpoint, policy=agent.policy)
    plain = copy.deepcopy(CONFIG)
    del plain["agent"]["observation_preprocessor"]
    with pytest.raises(CheckpointError, match="the checkpoint has a 'observation_preprocessor'"):
        actor_from_checkpoint(checkpoint, config=plain, **known)
    with pytest.raises(CheckpointError, match="belongs to policy="):
        actor_from_checkpoint(checkpoint, config=CONFIG, preprocessor=agent._observation_preprocessor, **known)
    with pytest.raises(CheckpointError, match="Configuration not found"):
        actor_from_checkpoint(checkpoint, config=tmp_path / "none.yaml", **known)


def test_what_does_not_fit_a_checkpoint_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    agent = trained_on_pendulum().agent
    known = spaces_of(agent.observation_space, agent.action_space)
    wider = copy.deepcopy(CONFIG)
    for role in ("policy", "value"):
        wider["models"][role]["network"] = [{**LAYERS[0], "layers": [32, 16]}]
    with pytest.raises(CheckpointError, match="does not match the policy of the configuration: size mismatch"):
        actor_from_checkpoint(checkpoint, config=wider, **known)
    unknown = copy.deepcopy(CONFIG) | {"agent": {"class": "NONE"}}
    with pytest.raises(CheckpointError, match="skrl cannot build the agent"):
        actor_from_checkpoint(checkpoint, config=unknown, **known)
    with pytest.raises(CheckpointError, match="preprocessor=: size mismatch"):
        actor_from_checkpoint(checkpoint, policy=agent.policy, preprocessor=scaler(box(5)))
    other = tmp_path / "other.pt"
    torch.save({"actor_state_dict": {}}, other)
    with pytest.raises(CheckpointError, match="not a checkpoint of skrl: looked for 'policy' or 'q_network'"):
        actor_from_checkpoint(other, policy=agent.policy)
    torch.save({"policy": agent.policy.state_dict()}, other)
    with pytest.raises(CheckpointError, match=r"contains no .* but preprocessor= is given"):
        actor_from_checkpoint(other, policy=agent.policy, preprocessor=agent._observation_preprocessor)
    with pytest.raises(CheckpointError, match="Checkpoint not found"):
        actor_from_checkpoint(tmp_path / "none.pt", policy=agent.policy)


def test_a_model_alone_takes_its_preprocessor() -> None:
    agent = agent_named("gaussian")
    observations = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    actor = actor_from_model(agent.policy, preprocessor=agent._observation_preprocessor)
    np.testing.assert_allclose(actor.forward(observations).numpy(), act(agent, observations), rtol=1e-5, atol=1e-5)
    with pytest.raises(PolicyError, match=r"RunningStandardScaler has statistics of shape \(4,\)"):
        actor_from_model(agent.policy, preprocessor=scaler(box(4)))
    with pytest.raises(PolicyError, match="skrl preprocessor must be callable"):
        actor_from_model(agent.policy, preprocessor=3)


def test_a_q_network_alone_needs_its_role() -> None:
    agent = agent_named("DQN")
    with pytest.raises(PolicyError, match="give role='q_network'"):
        actor_from_model(agent.q_network)
    actor = actor_from_model(agent.q_network, preprocessor=agent._observation_preprocessor, role="q_network")
    observations = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(actor.forward(observations).numpy(), act(agent, observations))
    with pytest.raises(PolicyError, match="role must be"):
        actor_from_model(agent.q_network, role="value")


def test_models_that_cannot_be_exported_are_refused() -> None:
    from skrl.models.torch import Model, TabularMixin

    class Table(TabularMixin, Model):
        def __init__(self, **known: Any) -> None:
            Model.__init__(self, **known)

        def compute(self, inputs: Any, role: str = "") -> Any:
            return inputs["observations"], {}

    class Uniform(Model):
        def compute(self, inputs: Any, role: str = "") -> Any:
            return torch.rand(len(inputs["observations"]), 2), {}

        def act(self, inputs: Any, *, role: str = "") -> Any:
            return self.compute(inputs, role)

    class Broken(Uniform):
        def compute(self, inputs: Any, role: str = "") -> Any:
            raise RuntimeError("wires crossed")

    known: dict[str, Any] = {**spaces_of(box(5), box(2)), "device": "cpu"}
    for model, message in (
        (Table(**known), "is a tabular model, which cannot be exported"),
        (Uniform(**known), "different actions for the same observation"),
        (Broken(**known), "fails on observations from its space .* wires crossed"),
        (Uniform(**known | {"observation_space": spaces.Text(3)}), "space of 'obs' must be a Box"),
        (Uniform(**known | {"observation_space": None}), "space of 'obs' must be a Box"),
        (torch.nn.Linear(5, 2), "is not a PyTorch model of skrl"),
    ):
        with pytest.raises(PolicyError, match=message):
            actor_from_model(model)


def test_objects_of_other_libraries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no policy of skrl: looked for `policy` or `q_network`"):
        actor_from_agent(object())
    without_preprocessor = SimpleNamespace(policy=agent_named("gaussian").policy)
    with pytest.raises(PolicyError, match="no preprocessor of observations: looked for `_observation_preprocessor`"):
        actor_from_agent(without_preprocessor)
    with pytest.raises(PolicyError, match="no agent of skrl: looked for `agent`"):
        actor_from_runner(object())
    with pytest.raises(PolicyError, match="has its own config, policy"):
        export_policy(agent_named("gaussian"), tmp_path / "policy", config={}, policy=object())

    class Several:
        possible_agents, policies = ("left", "right"), {"left": 1, "right": 2}

    with pytest.raises(PolicyError, match=r"a policy for each of left, right.*agent\.policies\[name\]"):
        actor_from_agent(Several())


def test_without_skrl_the_module_loads_and_says_what_to_install(checkpoint: Path) -> None:
    code = f"""
    import sys
    sys.modules["skrl"] = None
    from gymnasium.spaces import Box
    from exploy.exporter.frameworks.skrl import actor_from_checkpoint
    import json
    config = json.loads({json.dumps(CONFIG)!r})
    actor_from_checkpoint({str(checkpoint)!r}, config=config, observation_space=Box(-1, 1), action_space=Box(-1, 1))
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert "PolicyError" in result.stderr and "pip install 'exploy[skrl]'" in result.stderr


OLD_AGENTS = """
import copy, sys
sys.path.insert(0, {release!r})
import numpy as np, skrl, torch
from gymnasium.spaces import Box, Discrete
from skrl.agents.torch.dqn import DQN
from skrl.agents.torch.ppo import PPO, PPO_RNN
from skrl.models.torch import GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.utils.model_instantiators.torch import deterministic_model
from exploy.exporter.frameworks.skrl import actor_from_checkpoint, export_policy
from exploy.runtime import Controller

assert skrl.__version__ == {version!r}
torch.manual_seed(0)
space, quiet = Box(-np.inf, np.inf, (4,)), {{"write_interval": 0, "checkpoint_interval": 0}}


class Recurrent(GaussianMixin, Model):
    def __init__(self):
        Model.__init__(self, space, Box(-1, 1, (2,)), "cpu")
        GaussianMixin.__init__(self, clip_actions=True)
        self.lstm, self.head = torch.nn.LSTM(4, 8, batch_first=True), torch.nn.Linear(8, 2)

    def get_specification(self):
        return {{"rnn": {{"sequence_length": 1, "sizes": [(1, 1, 8), (1, 1, 8)]}}}}

    def compute(self, inputs, role):
        features, states = self.lstm(inputs["states"].view(-1, 1, 4), tuple(inputs["rnn"]))
        return 5 * self.head(features[:, 0]), torch.zeros(2), {{"rnn": list(states)}}


def agent(kind, name, model):
    cfg = {{"experiment": quiet, "state_preprocessor": RunningStandardScaler,
           "state_preprocessor_kwargs": {{"size": space, "device": "cpu"}}}}
    if kind is DQN:
        cfg["exploration"] = {{"timesteps": 0, "initial_epsilon": 1.0, "final_epsilon": 0.0}}
    made = kind({{name: model}}, observation_space=space, action_space=model.action_space, device="cpu", cfg=cfg)
    made.init()
    made.set_mode("eval")
    made._state_preprocessor(3 * torch.randn(64, 4) + 1, train=True)
    return made


network = [{{"name": "net", "input": "STATES", "layers": [16], "activations": "elu"}}]
q_network = deterministic_model(space, Discrete(3), "cpu", network=network, output="ACTIONS")
q_network.init_state_dict("q_network")
for made in (agent(PPO_RNN, "policy", Recurrent()), agent(DQN, "q_network", q_network)):
    controller = Controller.load(export_policy(made, {folder!r} + "/policy"))
    for _ in range(200):
        obs = 2 * torch.randn(1, 4)
        with torch.no_grad():
            actions, _, outputs = made.act(obs, 0, 1)
        if isinstance(made, PPO_RNN):
            made._rnn_initial_states["policy"] = made._rnn_final_states["policy"]
        expected = (outputs or {{}}).get("mean_actions", actions).numpy()
        np.testing.assert_allclose(controller.step({{"obs": obs.numpy()}})["actions"], expected, rtol=1e-5, atol=1e-5)
saved, scaler = {folder!r} + "/agent.pt", copy.deepcopy(made._state_preprocessor)
made.save(saved)
actor, obs = actor_from_checkpoint(saved, policy=q_network, preprocessor=scaler), torch.randn(100, 4)
assert torch.equal(actor.forward(obs), made.act(obs, 0, 1)[0])
model = {{"class": "DeterministicMixin", "network": network, "output": "ACTIONS"}}
config = {{
    "models": {{"separate": True, "q_network": model, "target_q_network": model}},
    "agent": {{"class": "DQN", "state_preprocessor": "RunningStandardScaler", "state_preprocessor_kwargs": None}},
}}
actor = actor_from_checkpoint(saved, config=config, observation_space=space, action_space=Discrete(3))
assert torch.equal(actor.forward(obs), made.act(obs, 0, 1)[0])
print("agreed")
"""


@pytest.mark.expensive  # installs that version
def test_agents_of_skrl_1_are_exported_as_well(tmp_path: Path) -> None:
    release = tmp_path / "release"
    install = ["install", "--quiet", "--no-deps", "--target", str(release), f"skrl=={OLD_RELEASE}"]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True, timeout=300)
    code = OLD_AGENTS.format(release=str(release), version=OLD_RELEASE, folder=str(tmp_path))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.stdout.strip().endswith("agreed"), result.stderr[-2000:]
