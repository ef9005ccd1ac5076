"""Exports each kind of policy of the first rsl_rl on the path, and compares it with the library's inference.

test_rsl_rl_versions.py runs it in a separate process, because a process can import only one version:
`python old_rsl_rl.py FOLDER`. Prints the compared policies as JSON, and raises if there is a difference.
"""

import copy
import importlib.metadata
import importlib.util
import inspect
import io
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import rsl_rl.modules
import rsl_rl.runners
import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from tensordict import TensorDict
from torch.distributions import Normal

from exploy.errors import ExployError
from exploy.exporter.frameworks.rsl_rl import actor_from_checkpoint, actor_from_model, export_policy
from tests.support.policies import assert_agrees, random_observations

GROUPS = {"policy": (4,), "goal": (2,), "camera": (1, 12, 10)}
ENCODER = {
    "output_channels": [4],
    "kernel_size": 3,
    "stride": 2,
    "dilation": 1,
    "padding": "zeros",
    "norm": "none",
    "activation": "relu",
    "max_pool": False,
    "global_pool": "none",
    "flatten": True,
}
HAS_MODELS = importlib.util.find_spec("rsl_rl.models") is not None
HAS_GROUPS = HAS_MODELS or "obs_groups" in inspect.signature(rsl_rl.modules.ActorCritic).parameters
PARAMETERS = {} if HAS_MODELS else dict(inspect.signature(rsl_rl.modules.ActorCritic).parameters)


class PointMasses(VecEnv):
    """Points in a plane that are pushed to a goal, with the interface of all versions."""

    def __init__(self, count: int = 8):
        self.num_envs, self.num_actions, self.num_obs, self.num_privileged_obs = count, 2, 4, 4
        self.max_episode_length, self.device, self.unwrapped = 20, "cpu", self
        self.cfg: dict[str, Any] = {}
        self.episode_length_buf = torch.zeros(count, dtype=torch.long)
        self.state, self.goal = torch.randn(count, 4), 3 * torch.randn(count, 2)

    def groups(self) -> dict[str, torch.Tensor]:
        rows, columns = torch.linspace(-1, 1, 12), torch.linspace(-1, 1, 10)
        x, y = self.state[:, 0, None, None], self.state[:, 1, None, None]
        picture = torch.exp(-((rows[:, None] - x) ** 2) - (columns - y) ** 2)
        return {"policy": self.state.clone(), "goal": self.goal.clone(), "camera": picture[:, None]}

    def get_observations(self) -> Any:
        groups = self.groups()
        if HAS_GROUPS:
            return TensorDict(groups, batch_size=self.num_envs)
        return groups["policy"], {"observations": {"teacher": groups["policy"], "critic": groups["policy"]}}

    def reset(self) -> Any:
        return self.get_observations()

    def step(self, actions: torch.Tensor) -> Any:
        position, speed = self.state.split(2, dim=-1)
        speed = 0.9 * speed + 0.1 * actions
        self.state = torch.cat([position + 0.1 * speed, speed], dim=-1)
        self.episode_length_buf += 1
        dones = self.episode_length_buf >= self.max_episode_length
        self.state = torch.where(dones[:, None], torch.randn_like(self.state), self.state)
        self.episode_length_buf *= ~dones
        rewards = -(self.goal - self.state[:, :2]).square().sum(dim=-1)
        observations = self.get_observations()
        if HAS_GROUPS:
            return observations, rewards, dones, {"time_outs": dones}
        return observations[0], rewards, dones, {"time_outs": dones, **observations[1]}


@dataclass
class Case:
    """A kind of policy: its options, observation groups and memories, and whether it is distilled and normalised."""

    options: dict[str, Any]
    groups: tuple[str, ...] = ("policy",)
    memories: tuple[str, ...] = ()
    distilled: bool = False
    normalized: bool = True

    @property
    def side(self) -> str:
        return "student" if self.distilled else "actor"


def cases() -> dict[str, Case]:
    """The kinds of policies that this version supports."""
    return _model_cases() if HAS_MODELS else _policy_cases()


def _model_cases() -> dict[str, Case]:
    import rsl_rl.models

    has_distributions = "distribution_cfg" in inspect.signature(rsl_rl.models.MLPModel).parameters

    def model(name: str, *, two_heads: Any = False, **options: Any) -> dict[str, Any]:
        kind = "HeteroscedasticGaussianDistribution" if two_heads else "GaussianDistribution"
        head: dict[str, Any] = {"stochastic": True, "state_dependent_std": two_heads}
        head = {"distribution_cfg": {"class_name": kind}} if has_distributions else head
        return {
            "class_name": name,
            "hidden_dims": [16, 16],
            "activation": "elu",
            "obs_normalization": True,
            **head,
            **options,
        }

    rnn: dict[str, Any] = {"rnn_hidden_dim": 12, "rnn_num_layers": 2}
    return {
        "mlp": Case(model("MLPModel")),
        "two heads": Case(model("MLPModel", two_heads=True, obs_normalization=False), ("goal", "policy")),
        "lstm": Case(model("RNNModel", rnn_type="lstm", **rnn), ("policy", "goal"), ("h", "c")),
        "gru": Case(model("RNNModel", rnn_type="gru", **rnn), memories=("h",)),
        "cnn": Case(model("CNNModel", cnn_cfg=ENCODER), ("policy", "camera")),
        "student": Case(model("RNNModel", rnn_type="lstm", **rnn), memories=("h", "c"), distilled=True),
    }


def _policy_cases() -> dict[str, Case]:
    several = ("goal", "policy") if HAS_GROUPS else ("policy",)
    state_dependent = {"state_dependent_std": False} if "state_dependent_std" in PARAMETERS else {}

    def policy(name: str, *, side: Any = "actor", **options: Any) -> dict[str, Any]:
        other = {"actor": "critic", "student": "teacher"}[side]
        normalized = {f"{side}_obs_normalization": True, f"{other}_obs_normalization": False} if HAS_GROUPS else {}
        sizes = {f"{side}_hidden_dims": [16, 12], f"{other}_hidden_dims": [8]}
        head = state_dependent if side == "actor" else {}
        return {"class_name": name, "activation": "elu", **sizes, **normalized, **head, **options}

    width = (
        "rnn_hidden_dim"
        if "rnn_hidden_dim" in inspect.signature(rsl_rl.modules.ActorCriticRecurrent).parameters
        else "rnn_hidden_size"
    )
    rnn: dict[str, Any] = {width: 12, "rnn_num_layers": 2}
    plain = {"actor_obs_normalization": False} if HAS_GROUPS else {}
    found = {
        "mlp": Case(policy("ActorCritic")),
        "tanh": Case(policy("ActorCritic", activation="tanh", **plain), several, normalized=False),
        "lstm": Case(policy("ActorCriticRecurrent", rnn_type="lstm", **rnn), several, ("h", "c")),
        "gru": Case(policy("ActorCriticRecurrent", rnn_type="gru", **rnn), memories=("h",)),
    }
    if state_dependent:
        found["two heads"] = Case(policy("ActorCritic", state_dependent_std=True), several)
    if hasattr(rsl_rl.modules, "ActorCriticCNN"):
        encoders: dict[str, Any] = {"actor_cnn_cfg": {"camera": ENCODER}, "critic_cnn_cfg": None}
        found["cnn"] = Case(policy("ActorCriticCNN", **encoders), ("camera", "policy"))
    if hasattr(rsl_rl.modules, "StudentTeacher"):
        found["student"] = Case(policy("StudentTeacher", side="student"), several, distilled=True)
        recurrent = policy("StudentTeacherRecurrent", side="student", rnn_type="lstm", teacher_recurrent=True, **rnn)
        found["recurrent student"] = Case(recurrent, memories=("h", "c"), distilled=True)
    return found


def config_of(case: Case) -> dict[str, Any]:
    """The training configuration in the format of this version."""
    critic = {"class_name": "MLPModel", "hidden_dims": [8], "activation": "elu", "obs_normalization": False}
    if case.memories:
        critic |= {"class_name": "RNNModel", "rnn_type": "lstm", "rnn_hidden_dim": 4, "rnn_num_layers": 1}
    other = {"actor": "critic", "student": "teacher"}[case.side]
    known = inspect.signature(PPO).parameters
    algorithm = {"class_name": "PPO", "learning_rate": 0.01, "num_mini_batches": 2}
    algorithm |= {name: None for name in ("rnd_cfg", "symmetry_cfg") if name in known}
    if case.distilled:
        algorithm = {"class_name": "Distillation", "gradient_length": 4}
    models = {case.side: case.options, other: critic} if HAS_MODELS else {"policy": case.options}
    groups = {"obs_groups": {case.side if HAS_MODELS else "policy": list(case.groups), other: ["policy"]}}
    normalization = {} if HAS_GROUPS else {"empirical_normalization": case.normalized}
    common = {"algorithm": algorithm, "num_steps_per_env": 24, "save_interval": 100, **normalization}
    return copy.deepcopy({**common, **models, **(groups if HAS_GROUPS else {})})


def trained(case: Case, folder: Path) -> Any:
    """A runner after some iterations. Logging is enabled, because some versions cannot train without it."""
    torch.manual_seed(0)
    if vars(Normal).get("set_default_validate_args") is False:
        del Normal.set_default_validate_args  # a bug in version 2.3 that prevents creating another policy afterwards
    distils = case.distilled and HAS_GROUPS
    runner_class = getattr(rsl_rl.runners, "DistillationRunner" if distils else "OnPolicyRunner")
    runner = runner_class(PointMasses(), config_of(case), log_dir=str(folder), device="cpu")
    if case.distilled:
        policy = runner.alg if HAS_MODELS else runner.alg.policy
        policy.teacher_loaded = policy.loaded_teacher = True
    runner.learn(2)
    return runner


def policy_of(runner: Any) -> Any:
    algorithm = runner.alg
    if hasattr(algorithm, "get_policy"):
        return algorithm.get_policy()
    return algorithm.policy if hasattr(algorithm, "policy") else algorithm.actor_critic


def inference_of(runner: Any, groups: tuple[str, ...]) -> Callable[[Mapping[str, np.ndarray]], torch.Tensor]:
    """The library's inference for the inputs of a file, starting without hidden state."""
    infer = runner.get_inference_policy()
    for module in policy_of(runner).modules():
        for name in ("hidden_state", "hidden_states"):
            if hasattr(module, name):
                setattr(module, name, None)

    def from_ports(values: Mapping[str, np.ndarray]) -> torch.Tensor:
        tensors = {name: torch.as_tensor(value) for name, value in values.items()}
        if not HAS_GROUPS:
            with torch.no_grad():
                return infer(tensors["obs"])
        by_group = {groups[0]: tensors["obs"]} if "obs" in tensors else tensors
        with torch.no_grad():
            return infer(TensorDict(by_group, batch_size=1))

    return from_ports


def compare(name: str, case: Case, folder: Path) -> None:
    """Compare one kind of policy, from its live runner and from its checkpoint."""
    runner = trained(case, folder / name)
    policy = policy_of(runner)
    state = {key: value.clone() for key, value in policy.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = export_policy(runner, folder / f"{name}.onnx")
    assert policy.training, "the mode must not change"
    assert all(torch.equal(value, state[key]) for key, value in policy.state_dict().items())
    graph = onnx.load(path).graph
    assert [port.name for port in graph.output] == ["actions", *(f"{memory}_out" for memory in case.memories)]
    assert not any("critic" in weight.name or "teacher" in weight.name for weight in graph.initializer)

    shapes = {"obs": GROUPS[case.groups[0]]} if len(case.groups) == 1 else {key: GROUPS[key] for key in case.groups}
    every = torch.ones(1, dtype=torch.bool)
    remembers = getattr(policy, "memory_a", policy)
    infer = inference_of(runner, case.groups)
    steps = assert_agrees(
        path, infer, random_observations(shapes), resets=(7, 150), reset=lambda: remembers.reset(every)
    )
    assert steps == 1_000

    checkpoint = folder / f"{name}.pt"
    runner.save(str(checkpoint))
    given = {key: GROUPS[key] for key in case.groups} if len(case.groups) > 1 else None
    actor = actor_from_checkpoint(checkpoint, config=config_of(case), obs_shapes=given)
    infer = inference_of(runner, case.groups)
    for values in random_observations(shapes, 30, seed=1):
        expected = infer(values)
        torch.testing.assert_close(actor({key: torch.as_tensor(value) for key, value in values.items()}), expected)


def refused(call: Callable[[], Any], *parts: str) -> None:
    """Require that a call raises an error whose message contains these parts."""
    with pytest.raises(ExployError) as caught:
        call()
    assert all(part in str(caught.value) for part in parts), (str(caught.value), parts)


def check_refusals(case: Case, folder: Path) -> None:
    """Require that errors name the missing settings of this version."""
    checkpoint = folder / "mlp.pt"
    section = case.side if HAS_MODELS else "policy"
    hidden = "hidden_dims" if HAS_MODELS else "actor_hidden_dims"
    needed = ("activation", "class_name", hidden)
    config = config_of(case)
    config[section] = {key: value for key, value in config[section].items() if key not in needed}
    refused(lambda: actor_from_checkpoint(checkpoint, config=config), "Missing", f"{section}.class_name")
    config[section]["class_name"] = case.options["class_name"]
    refused(
        lambda: actor_from_checkpoint(checkpoint, config=config),
        "Missing",
        *(f"{section}.{key}" for key in needed[::2]),
    )
    other = {**config_of(case), section: {**case.options, hidden: [3, 3]}}
    refused(lambda: actor_from_checkpoint(checkpoint, config=other), "does not match")
    if not HAS_MODELS:
        loaded = torch.load(checkpoint)
        del loaded["model_state_dict"]["std"]
        torch.save(loaded, folder / "no_std.pt")
        refused(lambda: actor_from_checkpoint(folder / "no_std.pt", config=config_of(case)), "no `std`")
    if HAS_GROUPS:
        refused(lambda: actor_from_checkpoint(checkpoint, config={}), section, "obs_groups")
        return
    config = config_of(case)
    del config["empirical_normalization"]
    refused(lambda: actor_from_checkpoint(checkpoint, config=config), "Missing", "empirical_normalization")
    plain = {**config, "empirical_normalization": False}
    refused(lambda: actor_from_checkpoint(checkpoint, config=plain), "obs_norm_state_dict", "False")
    runner = trained(case, folder / "again")
    policy = policy_of(runner)
    refused(lambda: actor_from_model(policy), "normalizer=runner.obs_normalizer")
    refused(lambda: actor_from_model(policy, normalizer=type(runner.obs_normalizer)([7])), "(7,)", "(4,)")
    infer = inference_of(runner, case.groups)
    actor = actor_from_model(policy.act_inference, normalizer=runner.obs_normalizer)
    torch.testing.assert_close(actor(torch.ones(1, 4)), infer({"obs": np.ones((1, 4), np.float32)}))


def main() -> None:
    folder = Path(sys.argv[1])
    found = cases()
    with redirect_stdout(io.StringIO()):
        for name, case in found.items():
            compare(name, case, folder)
            if name == "mlp":
                check_refusals(case, folder)
    print(json.dumps({"version": importlib.metadata.version("rsl-rl-lib"), "compared": list(found)}))


if __name__ == "__main__":
    main()
