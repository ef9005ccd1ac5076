"""Policies of the installed rsl_rl, trained briefly in Pendulum-v1 and compared with their own inference."""

import copy
import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
import yaml
from rsl_rl.env import VecEnv
from rsl_rl.models import MLPModel, RNNModel
from rsl_rl.modules import RNN, Distribution
from rsl_rl.runners import DistillationRunner, OnPolicyRunner
from tensordict import TensorDict

from exploy.errors import CheckpointError, PolicyError
from exploy.exporter.frameworks.rsl_rl import (
    actor_from_checkpoint,
    actor_from_model,
    actor_from_runner,
    export_policy,
)
from exploy.policy.policy import Policy
from exploy.runtime import Controller
from tests.support.policies import assert_agrees, random_observations

GROUPS = {"policy": (2,), "rate": (1,), "camera": (1, 12, 10)}


def groups_of(values: np.ndarray) -> TensorDict:
    """Observations of Pendulum-v1 in groups: the direction, the rate, and a picture of the two."""
    observed = torch.as_tensor(values, dtype=torch.float32)
    rows, columns = torch.linspace(-1, 1, 12), torch.linspace(-1, 1, 10)
    picture = torch.exp(-4 * (rows[:, None] - observed[:, 0, None, None]) ** 2) * torch.exp(
        -4 * (columns - observed[:, 1, None, None]) ** 2
    )
    return TensorDict(
        {"policy": observed[:, :2], "rate": observed[:, 2:], "camera": picture[:, None]}, batch_size=len(observed)
    )


class Pendulums(VecEnv):
    """Several Gymnasium pendulums as an rsl_rl environment."""

    def __init__(self, count: int = 8):
        self.num_envs, self.num_actions, self.max_episode_length = count, 1, 20
        self.device = "cpu"
        self.cfg: dict[str, Any] = {}
        self.episode_length_buf = torch.zeros(count, dtype=torch.long)
        self.envs = gymnasium.make_vec(
            "Pendulum-v1", num_envs=count, vectorization_mode="sync", max_episode_steps=self.max_episode_length
        )
        self.observations, _ = self.envs.reset(seed=0)

    def get_observations(self) -> TensorDict:
        return groups_of(self.observations)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self.observations, rewards, ends, time_outs, _ = self.envs.step(actions.clamp(-2, 2).numpy())
        dones = torch.as_tensor(ends | time_outs)
        self.episode_length_buf = torch.where(dones, 0, self.episode_length_buf + 1)
        extras = {"time_outs": torch.as_tensor(time_outs)}
        return self.get_observations(), torch.as_tensor(rewards, dtype=torch.float32), dones.long(), extras


def head(name: str, **options: Any) -> dict[str, Any]:
    return {"class_name": f"{name}Distribution", **options}


ENCODER = {
    "output_channels": [4, 6],
    "kernel_size": 3,
    "stride": [1, 2],
    "dilation": 1,
    "padding": "zeros",
    "norm": "batch",
    "activation": "relu",
    "max_pool": False,
    "global_pool": "none",
    "flatten": True,
}
ARCHITECTURES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "mlp": (["policy"], {"class_name": "MLPModel", "distribution_cfg": head("Gaussian", std_type="log")}),
    "two groups": (["rate", "policy"], {"class_name": "rsl_rl.models:MLPModel", "distribution_cfg": head("Gaussian")}),
    "heteroscedastic": (
        ["policy", "rate"],
        {
            "class_name": "MLPModel",
            "activation": "tanh",
            "obs_normalization": False,
            "distribution_cfg": head("HeteroscedasticGaussian"),
        },
    ),
    "beta": (["policy"], {"class_name": "MLPModel", "distribution_cfg": head("Beta", action_range=(-2.0, 1.0))}),
    "lstm": (
        ["policy", "rate"],
        {
            "class_name": "RNNModel",
            "rnn_type": "lstm",
            "rnn_hidden_dim": 12,
            "rnn_num_layers": 2,
            "distribution_cfg": head("Gaussian"),
        },
    ),
    "gru": (
        ["rate"],
        {
            "class_name": "RNNModel",
            "rnn_type": "gru",
            "rnn_hidden_dim": 12,
            "rnn_num_layers": 1,
            "distribution_cfg": head("Beta", action_range=(0.0, 1.0)),
        },
    ),
    "cnn": (
        ["camera", "policy"],
        {"class_name": "CNNModel", "cnn_cfg": ENCODER, "distribution_cfg": head("Gaussian")},
    ),
    "only a camera": (
        ["camera"],
        {
            "class_name": "CNNModel",
            "obs_normalization": False,
            "cnn_cfg": {"camera": {**ENCODER, "norm": "layer", "global_pool": "avg"}},
            "distribution_cfg": head("Gaussian"),
        },
    ),
}


def config_of(architecture: str) -> dict[str, Any]:
    """The training configuration of an architecture."""
    groups, options = ARCHITECTURES[architecture]
    actor = {"hidden_dims": [16, 16], "activation": "elu", "obs_normalization": True, **copy.deepcopy(options)}
    critic = {"class_name": "MLPModel", "hidden_dims": [8], "activation": "elu", "obs_normalization": True}
    if architecture in ("lstm", "gru"):
        critic |= {"class_name": "RNNModel", "rnn_type": "gru", "rnn_hidden_dim": 4, "rnn_num_layers": 1}
    return {
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2, "learning_rate": 0.01},
        "actor": actor,
        "critic": critic,
        "obs_groups": {"actor": groups, "critic": ["policy", "rate"]},
        "num_steps_per_env": 24,
        "save_interval": 100,
    }


@functools.cache
def trained(architecture: str) -> OnPolicyRunner:
    """A runner after some iterations, in training mode, with a hidden state from its rollouts."""
    torch.manual_seed(0)
    runner = OnPolicyRunner(Pendulums(), config_of(architecture), log_dir=None, device="cpu")
    runner.learn(3)
    return runner


def inference_of(runner: OnPolicyRunner) -> tuple[Callable[[Mapping[str, Any]], torch.Tensor], Any]:
    """The library's inference for the inputs of a file, and its policy."""
    policy = runner.get_inference_policy()
    policy.reset()
    groups = [*policy.obs_groups, *getattr(policy, "obs_groups_2d", ())]

    def infer(values: Mapping[str, Any]) -> torch.Tensor:
        by_group = {groups[0]: values["obs"]} if "obs" in values else values
        tensors = {name: torch.as_tensor(value) for name, value in by_group.items()}
        with torch.no_grad():
            return policy(TensorDict(tensors, batch_size=len(next(iter(tensors.values())))))

    return infer, policy


def shapes_of(policy: Policy) -> dict[str, tuple[int, ...]]:
    return {item.name: tuple(int(size) for size in item.shape[1:]) for item in policy.inputs}


def checkpoint_of(runner: OnPolicyRunner, path: Path) -> Path:
    """Save the checkpoint of a runner."""
    torch.save({**runner.alg.save(), "iter": runner.current_learning_iteration, "infos": None}, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rsl_rl")


@pytest.fixture(scope="module")
def lstm_file(folder: Path) -> Path:
    """A recurrent policy, exported for any number of robots with names and rate."""
    return export_policy(
        trained("lstm"),
        folder / "lstm",
        obs_names={"policy": ["cos", "sin"], "rate": ["rate"]},
        action_names=["torque"],
        rate_hz=20,
        dynamic_batch=True,
    )


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Path:
    """A checkpoint of a policy with two observation groups."""
    return checkpoint_of(trained("heteroscedastic"), folder / "model_3.pt")


@pytest.mark.matrix
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_file_gives_what_inference_gives_from_raw_observations(architecture: str, tmp_path: Path) -> None:
    runner = trained(architecture)
    actor = actor_from_runner(runner)
    path = export_policy(runner, tmp_path / "policy.onnx", golden_trace=False)
    infer, policy = inference_of(runner)
    observations = list(random_observations(shapes_of(actor)))
    steps = assert_agrees(path, infer, observations, resets=(0, 7, 150), reset=lambda: policy.reset(torch.ones(1)))
    assert steps == 1_000
    assert len({float(infer(values)) for values in observations[:20]}) == 20, "the policy must react"
    contract = Controller.load(path).contract
    groups = ARCHITECTURES[architecture][0]
    assert {port.name for port in contract.inputs if not port.name.endswith("_in")} == (
        {"obs"} if len(groups) == 1 else set(groups)
    )
    memories = {"lstm": ["h", "c"], "gru": ["h"]}.get(architecture, [])
    assert [port.name for port in contract.outputs] == ["actions", *(f"{name}_out" for name in memories)]
    assert "rsl-rl-lib" in str(contract.provenance)


def test_statistics_of_the_normaliser_are_not_trivial() -> None:
    normalizer = trained("mlp").alg.get_policy().obs_normalizer
    assert normalizer.count > 500
    assert (normalizer.mean.abs() > 0.01).all() and ((normalizer.std - 1).abs() > 0.01).all()


def test_a_recurrent_file_drives_the_pendulum_through_two_episodes(lstm_file: Path) -> None:
    infer, policy = inference_of(trained("lstm"))
    controller = Controller.load(lstm_file, sizes={"batch": 1})
    env = gymnasium.make("Pendulum-v1", max_episode_steps=60)
    steps = 0
    for episode in range(2):
        observation, _ = env.reset(seed=episode)
        controller.reset()
        policy.reset(torch.ones(1))
        ended = False
        while not ended:
            values = {name: groups_of(observation[None])[name].numpy() for name in ("policy", "rate")}
            actions = controller.step(values)["actions"]
            np.testing.assert_allclose(actions, infer(values), rtol=1e-5, atol=1e-5)
            observation, _, terminated, truncated, _ = env.step(actions[0].clip(-2, 2))
            ended, steps = bool(terminated or truncated), steps + 1
    assert steps == 120


def test_names_the_rate_and_any_number_of_robots_are_in_the_file(lstm_file: Path) -> None:
    controller = Controller.load(lstm_file, sizes={"batch": 5})
    ports = {port.name: port for port in (*controller.contract.inputs, *controller.contract.outputs)}
    assert (ports["policy"].names, ports["rate"].names) == (("cos", "sin"), ("rate",))
    assert ports["actions"].names == ("torque",)
    assert ports["policy"].shape == ("batch", 2) and ports["h_in"].shape == (2, "batch", 12)
    assert controller.contract.hz == 20
    infer, _ = inference_of(trained("lstm"))
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = {"policy": rng.normal(size=(5, 2)), "rate": rng.normal(size=(5, 1))}
        values = {name: value.astype(np.float32) for name, value in values.items()}
        np.testing.assert_allclose(controller.step(values)["actions"], infer(values), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
def test_the_actor_keeps_its_state_and_resets_single_robots(architecture: str) -> None:
    actor = actor_from_runner(trained(architecture))
    infer, policy = inference_of(trained(architecture))
    generator = torch.Generator().manual_seed(0)
    for step in range(20):
        values = {item.name: item.draw(3, generator) for item in actor.inputs}
        torch.testing.assert_close(actor(values if len(values) > 1 else values["obs"]), infer(values))
        dones = torch.tensor([step % 3 == 0, False, step % 5 == 0])
        actor.reset(dones)
        policy.reset(dones)
        hidden = policy.get_hidden_state()
        torch.testing.assert_close(actor.get_state(), hidden if isinstance(hidden, tuple) else (hidden,))
    assert actor_from_runner(trained("mlp")).get_state() is None


def test_the_runner_is_left_as_it_was_in_the_middle_of_training(tmp_path: Path) -> None:
    torch.manual_seed(0)
    runner = OnPolicyRunner(Pendulums(), config_of("lstm"), log_dir=None, device="cpu")
    runner.learn(1)
    model = runner.alg.get_policy()
    model.reset()
    model(runner.env.get_observations(), stochastic_output=True)
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(model)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    hidden = [part.clone() for part in model.get_hidden_state()]
    gradients = {name: value.requires_grad for name, value in model.named_parameters()}
    pointers = {name: value.data_ptr() for name, value in model.state_dict().items()}
    export_policy(runner, tmp_path / "policy.onnx", golden_trace=False)
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]) and value.data_ptr() == pointers[name], name
    assert all(torch.equal(now, before) for now, before in zip(model.get_hidden_state(), hidden, strict=True))
    assert {name: value.requires_grad for name, value in model.named_parameters()} == gradients
    assert model.training and runner.alg.critic.training and all(module.training for module in model.modules())
    runner.learn(1)


def test_a_distilled_student_is_the_policy_of_its_runner(tmp_path: Path) -> None:
    config = config_of("lstm")
    config["student"] = {**config["actor"], "distribution_cfg": head("Gaussian", init_std=0.1)}
    config["teacher"] = config_of("mlp")["actor"]
    config["algorithm"] = {"class_name": "Distillation", "gradient_length": 4}
    config["obs_groups"] = {"student": ["rate", "policy"], "teacher": ["policy"]}
    runner = DistillationRunner(Pendulums(), copy.deepcopy(config), log_dir=None, device="cpu")
    runner.alg.load(trained("mlp").alg.save(), None, True)
    runner.learn(2)
    path = checkpoint_of(runner, tmp_path / "student.pt")
    infer, _ = inference_of(runner)
    shapes = {"rate": 1, "policy": 2}
    actors = [actor_from_runner(runner), actor_from_checkpoint(path, config=config, obs_shapes=shapes)]
    assert all([item.name for item in actor.inputs] == ["rate", "policy"] for actor in actors)
    for values in random_observations(shapes_of(actors[0]), 50):
        for actor in actors:
            got = actor({name: torch.as_tensor(value) for name, value in values.items()})
            if actor is actors[0]:
                expected = infer(values)
            torch.testing.assert_close(got, expected)


class Smoothed(MLPModel):
    """A custom model that averages over two filters, each with its own memory."""

    is_recurrent = True

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.fast, self.slow = RNN(2, 2, 1, "gru"), RNN(2, 2, 1, "lstm")

    def get_latent(self, obs: Any, masks: Any = None, hidden_state: Any = None) -> torch.Tensor:
        latent = super().get_latent(obs)
        return (self.fast(latent) + self.slow(latent)).squeeze(0) / 2

    def reset(self, dones: Any = None, hidden_state: Any = None) -> None:
        self.fast.reset(dones)
        self.slow.reset(dones)


def small_model(kind: type[MLPModel] = MLPModel, **options: Any) -> MLPModel:
    torch.manual_seed(0)
    observations = groups_of(np.zeros((1, 3)))
    return kind(observations, {"actor": ["policy"]}, "actor", 1, hidden_dims=[4], **options)


def test_a_model_of_the_user_is_called_as_it_is_with_a_name_for_each_memory(tmp_path: Path) -> None:
    model = small_model(Smoothed)
    path = export_policy(model, tmp_path / "policy.onnx")
    assert [memory.name for memory in Controller.load(path).contract.memories] == ["fast_h", "slow_h", "slow_c"]
    model.reset()

    def infer(values: Mapping[str, np.ndarray]) -> torch.Tensor:
        return model(TensorDict({"policy": torch.as_tensor(values["obs"])}, batch_size=1)).detach()

    observations = random_observations({"obs": (2,)}, 30)
    assert_agrees(path, infer, observations, resets=(12,), reset=lambda: model.reset(torch.ones(1)))


@pytest.mark.matrix
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_checkpoint_with_its_configuration_is_the_same_policy(architecture: str, tmp_path: Path) -> None:
    runner = trained(architecture)
    path = checkpoint_of(runner, tmp_path / "model.pt")
    config = config_of(architecture)
    before = copy.deepcopy(config)
    groups = ARCHITECTURES[architecture][0]
    needed = {name: GROUPS[name] for name in groups} if len(groups) > 1 or "camera" in groups else None
    actor = actor_from_checkpoint(path, config=config, obs_shapes=needed)
    assert config == before
    infer, _ = inference_of(runner)
    for values in random_observations(shapes_of(actor), 50):
        expected = infer(values)
        torch.testing.assert_close(actor({name: torch.as_tensor(value) for name, value in values.items()}), expected)


def test_a_checkpoint_is_exported_with_the_agent_yaml_of_isaaclab(tmp_path: Path) -> None:
    path = checkpoint_of(trained("beta"), tmp_path / "model.pt")
    agent = tmp_path / "agent.yaml"
    agent.write_text(yaml.dump(config_of("beta")))
    assert "!!python/tuple" in agent.read_text()
    file = export_policy(path, tmp_path / "policy.onnx", config=agent)
    infer, _ = inference_of(trained("beta"))
    assert_agrees(file, infer, random_observations({"obs": (2,)}, 50))


def test_weights_do_not_tell_the_head_so_that_the_configuration_decides(checkpoint: Path) -> None:
    config = config_of("heteroscedastic")
    shapes = {"policy": 2, "rate": 1}
    right = actor_from_checkpoint(checkpoint, config=config, obs_shapes=shapes)
    config["actor"]["distribution_cfg"] = head("Beta", action_range=(-1.0, 1.0))
    other = actor_from_checkpoint(checkpoint, config=config, obs_shapes=shapes)
    values = {"policy": torch.ones(1, 2), "rate": torch.ones(1, 1)}
    assert not torch.allclose(right(values), other(values))


def test_a_checkpoint_alone_is_refused_with_all_that_it_does_not_tell(checkpoint: Path) -> None:
    with pytest.raises(
        CheckpointError,
        match="class of its network, the activation, the hidden layers, the distribution, the normalisation and the "
        "observation groups",
    ):
        actor_from_checkpoint(checkpoint)


@pytest.mark.parametrize(
    ("architecture", "key"),
    [
        ("heteroscedastic", key)
        for key in (
            "actor",
            "obs_groups",
            "obs_groups.actor",
            "actor.class_name",
            "actor.activation",
            "actor.hidden_dims",
            "actor.obs_normalization",
            "actor.distribution_cfg",
            "actor.distribution_cfg.class_name",
        )
    ]
    + [
        ("beta", "actor.distribution_cfg.action_range"),
        ("lstm", "actor.rnn_type"),
        ("lstm", "actor.rnn_num_layers"),
        ("cnn", "actor.cnn_cfg"),
        ("cnn", "actor.cnn_cfg.activation"),
        ("only a camera", "actor.cnn_cfg.camera.padding"),
    ],
)
def test_whatever_the_configuration_leaves_out_is_named(architecture: str, key: str, folder: Path) -> None:
    path = checkpoint_of(trained(architecture), folder / f"{architecture}.pt")
    config: Any = config_of(architecture)
    owner, *names = config, *key.split(".")
    for name in names[:-1]:
        owner = owner[name]
    del owner[names[-1]]
    with pytest.raises(CheckpointError, match=rf"Missing: .*{key}"):
        actor_from_checkpoint(path, config=config, obs_shapes=GROUPS)


def test_all_that_is_missing_is_listed_at_once(folder: Path) -> None:
    path = checkpoint_of(trained("cnn"), folder / "cnn.pt")
    config = config_of("cnn")
    del config["actor"]["activation"], config["actor"]["cnn_cfg"]["stride"]
    with pytest.raises(CheckpointError) as caught:
        actor_from_checkpoint(path, config=config)
    for part in ("actor.activation", "actor.cnn_cfg.stride", "obs_shapes['camera'] (channels, height and width)"):
        assert part in str(caught.value)
    assert "obs_shapes['policy']" not in str(caught.value), "its width is in the normaliser"


def test_widths_of_groups_that_share_the_network_are_asked_for(checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match=r"obs_shapes\['policy'\] \(its width\), obs_shapes\['rate'\]"):
        actor_from_checkpoint(checkpoint, config=config_of("heteroscedastic"))


def with_change(**changes: Any) -> dict[str, Any]:
    config = config_of("heteroscedastic")
    config["actor"] |= changes
    return config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (with_change(hidden_dims=[16, 17]), "does not match the MLPModel of its configuration"),
        (with_change(hidden_dims=[16]), "does not match the MLPModel"),
        (with_change(obs_normalization=True), "missing obs_normalizer._mean"),
        (with_change(distribution_cfg=head("Gaussian")), "missing distribution.std_param"),
        (with_change(activation="sinus"), "rsl_rl cannot build MLPModel .*sinus"),
        (with_change(state_dependent_std=True), "does not accept actor.state_dependent_std"),
        (
            with_change(class_name="TransformerModel"),
            "'TransformerModel', but the installed rsl-rl-lib has CNNModel, MLP",
        ),
        (with_change(distribution_cfg=head("Distribution")), "actor.distribution_cfg.class_name is"),
        ("agent.yaml", "Configuration not found: agent.yaml"),
        (object(), "config must be a dictionary or the path of a YAML file, got object"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(config: Any, message: str, checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        actor_from_checkpoint(checkpoint, config=config, obs_shapes={"policy": 2, "rate": 1})


@pytest.mark.parametrize("section", ["actor", "distribution_cfg"])
@pytest.mark.parametrize("name", ["trap:MLPModel", "trap.GaussianDistribution"])
def test_no_code_that_a_configuration_names_is_imported(
    section: str, name: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    config = config_of("heteroscedastic")
    (config["actor"] if section == "actor" else config["actor"]["distribution_cfg"])["class_name"] = name
    with pytest.raises(CheckpointError, match=f"class_name is '{name}', but the installed rsl-rl-lib has"):
        actor_from_checkpoint(checkpoint, config=config, obs_shapes={"policy": 2, "rate": 1})
    assert "trap" not in sys.modules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("actor: !!python/object/apply:os.getcwd []", "cannot be read as plain YAML"),
        ("actor: [", "cannot be read as plain YAML"),
        ("- 1", "must contain a dictionary, got list"),
    ],
)
def test_yaml_files_with_more_than_plain_values_are_refused(
    text: str, message: str, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "agent.yaml").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        actor_from_checkpoint(checkpoint, config=tmp_path / "agent.yaml")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"policy": {}, "value": {}}, "looked for 'actor_state_dict' or .* found policy, value"),
        ({"actor_state_dict": [1]}, "weights must be a dictionary of tensors"),
        (
            {"model_state_dict": {"actor.0.weight": torch.ones(1, 1)}},
            "'ActorCritic', but the installed rsl-rl-lib has none",
        ),
        ({"actor_state_dict": {"mlp.0.weight": torch.ones(4, 3)}}, "last layer of `mlp` has 0 values"),
    ],
)
def test_checkpoints_of_something_else_are_refused(contents: Any, message: str, tmp_path: Path) -> None:
    torch.save(contents, tmp_path / "model.pt")
    config = {**config_of("heteroscedastic"), "policy": {"class_name": "ActorCritic"}}
    with pytest.raises(CheckpointError, match=message):
        actor_from_checkpoint(tmp_path / "model.pt", config=config, obs_shapes=GROUPS)


class WithoutRslRl:
    """An import hook that hides rsl_rl, as if it were not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "rsl_rl":
            raise ModuleNotFoundError("No module named 'rsl_rl'", name=name)


def test_without_rsl_rl_a_checkpoint_asks_for_it(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "rsl_rl"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutRslRl(), *sys.meta_path])
    with pytest.raises(PolicyError, match=r"cannot be imported .* Install it: pip install 'exploy\[rsl-rl\]'"):
        actor_from_checkpoint(checkpoint, config=config_of("heteroscedastic"), obs_shapes=GROUPS)


class Coin(Distribution):
    """A head without a mean."""

    @property
    def input_dim(self) -> int:
        return self.output_dim


class Forgetful(MLPModel):
    """A model that is marked as recurrent but has no hidden state."""

    is_recurrent = True


class Lopsided(MLPModel):
    """A model whose inference loses the batch."""

    def forward(self, *args: Any, **options: Any) -> torch.Tensor:
        return super().forward(*args, **options)[0]


def widened(model: MLPModel) -> MLPModel:
    model.obs_normalizer = type(small_model(obs_normalization=True).obs_normalizer)(7)
    return model


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: object(), {}, "must be a torch.nn.Module, got builtins.object"),
        (lambda: torch.nn.Linear(2, 1), {}, "looked for `obs_groups` or `act_inference`"),
        (lambda: small_model(distribution_cfg={"class_name": Coin}), {}, r"no deterministic form.*Coin"),
        (lambda: small_model(Forgetful), {}, "is marked as recurrent, but no hidden state was found"),
        (lambda: small_model(Lopsided), {}, r"actions of shape \(batch, actions\), got \(1,\) for a batch of 2"),
        (lambda: widened(small_model()), {}, r"`obs_normalizer` has statistics of shape \(7,\)"),
        (small_model, {"normalizer": torch.nn.Identity()}, "normalises its observations itself"),
        (small_model, {"obs_shapes": {"policy": 3}}, r"policy \(3,\), not \(2,\)"),
        (small_model, {"obs_shapes": {"policy": "2"}}, r"obs_shapes\['policy'\] must be a width such as 48"),
        (lambda: trained("lstm").alg.get_policy(), {}, "RNNModel reads policy, rate, but the shape of policy, rate is"),
        (
            lambda: trained("lstm").alg.get_policy(),
            {"obs_shapes": {"policy": 2, "rate": 2}},
            "reads 3 values in total, but obs_shapes gives 4: policy 2, rate 2",
        ),
    ],
)
def test_models_that_cannot_be_exported_are_refused(make: Callable[[], Any], options: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        actor_from_model(make(), **options)


def test_a_group_cannot_have_the_name_of_an_output() -> None:
    observations = TensorDict({"actions": torch.zeros(1, 2), "rate": torch.zeros(1, 1)}, batch_size=1)
    model = MLPModel(observations, {"actor": ["actions", "rate"]}, "actor", 1, hidden_dims=[4])
    with pytest.raises(PolicyError, match="would have the name actions"):
        actor_from_model(model, obs_shapes={"actions": 2, "rate": 1})


def test_options_of_another_source_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="`normalizer` is for a live actor-critic"):
        export_policy(checkpoint, tmp_path / "policy", normalizer=torch.nn.Identity())
    with pytest.raises(PolicyError, match="`config` is for checkpoints"):
        export_policy(small_model(), tmp_path / "policy", config={})
    with pytest.raises(PolicyError, match="A runner contains its normaliser"):
        export_policy(trained("mlp"), tmp_path / "policy", normalizer=torch.nn.Identity())
    with pytest.raises(PolicyError, match="has no algorithm: looked for `alg`"):
        actor_from_runner(small_model())
    assert list(tmp_path.iterdir()) == []


def test_a_recurrent_network_of_another_kind_is_refused() -> None:
    model = small_model(RNNModel, rnn_hidden_dim=4)
    model.rnn.rnn = torch.nn.RNN(2, 4)
    with pytest.raises(PolicyError, match="must have an LSTM or a GRU, got RNN"):
        actor_from_model(model)
