"""Stable-Baselines3 and sb3-contrib: files return the actions of `predict(deterministic=True)`."""

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import ARS, QRDQN, TQC, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)

from exploy.errors import CaptureError, CheckpointError, ExployError, MetadataError, PolicyError, VerificationError
from exploy.exporter.frameworks import sb3
from exploy.runtime import Controller
from tests.support.gym_environments import IMAGE, RandomWalk
from tests.support.policies import assert_agrees

BOX = spaces.Box(-1.0, 1.0, (5,), np.float32)
UNEVEN = spaces.Box(np.array([-2.0, 0.1], np.float32), np.array([0.5, 3.0], np.float32))
SMALL: dict[str, Any] = {"net_arch": [16, 16]}
ON_POLICY: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "seed": 0, "policy_kwargs": SMALL}
OFF_POLICY: dict[str, Any] = {
    "learning_starts": 20,
    "batch_size": 16,
    "buffer_size": 200,
    "seed": 0,
    "policy_kwargs": SMALL,
}

RECURRENT = ON_POLICY | {"policy": "MlpLstmPolicy", "policy_kwargs": {"lstm_hidden_size": 16}}


def walk(observation: spaces.Space[Any], action: spaces.Space[Any]) -> Callable[[], gym.Env[Any, Any]]:
    return lambda: RandomWalk(observation, action)


def vectorized(make: Callable[[], gym.Env[Any, Any]]) -> DummyVecEnv:
    venv = DummyVecEnv([make])
    venv.seed(0)
    return venv


def predicted(model: BaseAlgorithm, prepare: Callable[[Any], Any] = lambda obs: obs) -> Callable[[Any], np.ndarray]:
    """The library's own deterministic inference, from raw observations by port."""

    def infer(values: Any) -> np.ndarray:
        masks = {"action_masks": values["action_masks"]} if "action_masks" in values else {}
        values = {name: value for name, value in values.items() if name != "action_masks"}
        return model.predict(prepare(values.get("obs", values)), deterministic=True, **masks)[0]

    return infer


def samples(space: spaces.Space[Any], count: int = 1_000) -> Iterator[dict[str, np.ndarray]]:
    """Random observations of a space for one robot. Unbounded boxes give normal numbers."""
    space.seed(1)
    for _ in range(count):
        drawn = space.sample()
        values = drawn if isinstance(drawn, dict) else {"obs": drawn}
        yield {name: np.asarray(value)[None] for name, value in values.items()}


def trained(algorithm: type[BaseAlgorithm], env: Any, steps: int = 64, **options: Any) -> Any:
    """A trained algorithm. The options are copied because the library changes them."""
    options = copy.deepcopy(options)
    return algorithm(options.pop("policy", "MlpPolicy"), env, device="cpu", **options).learn(steps)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("algorithm", "action_space", "options"),
    [
        (PPO, UNEVEN, ON_POLICY),
        (PPO, UNEVEN, ON_POLICY | {"use_sde": True, "policy_kwargs": SMALL | {"squash_output": True}}),
        (PPO, spaces.Discrete(4), ON_POLICY),
        (PPO, spaces.MultiDiscrete([3, 2, 4]), ON_POLICY),
        (PPO, spaces.MultiBinary(3), ON_POLICY),
        (A2C, spaces.Box(-1.0, 1.0, (2, 3), np.float32), {"n_steps": 16, "seed": 0, "policy_kwargs": SMALL}),
        (SAC, UNEVEN, OFF_POLICY),
        (SAC, UNEVEN, OFF_POLICY | {"use_sde": True}),
        (TD3, UNEVEN, OFF_POLICY),
        (TQC, UNEVEN, OFF_POLICY),
        (DQN, spaces.Discrete(4), OFF_POLICY),
        (QRDQN, spaces.Discrete(4), OFF_POLICY),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
def test_every_algorithm_and_action_space_gives_the_same_actions(
    algorithm: type[BaseAlgorithm], action_space: spaces.Space[Any], options: dict[str, Any], tmp_path: Path
) -> None:
    model = trained(algorithm, vectorized(walk(BOX, action_space)), **options)
    path = sb3.export_policy(model, tmp_path / "policy.onnx")
    assert assert_agrees(path, predicted(model), samples(BOX)) == 1_000
    contract = Controller.load(path).contract
    assert [port.name for port in contract.outputs] == ["actions"] and contract.decimation == 1
    assert "stable-baselines3" in contract.provenance.versions


@pytest.mark.matrix
@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(6),
        spaces.MultiDiscrete([4, 3]),
        spaces.MultiBinary(5),
        spaces.Box(-np.inf, np.inf, (3, 2), np.float64),
        spaces.Box(0, 20, (4,), np.int64),
    ],
    ids=lambda space: type(space).__name__,
)
def test_every_kind_of_observation_has_its_own_type(space: spaces.Space[Any], tmp_path: Path) -> None:
    model = trained(PPO, vectorized(walk(space, UNEVEN)), **ON_POLICY)
    path = sb3.export_policy(model, tmp_path / "policy.onnx")
    assert Controller.load(path).ports["obs"].dtype == str(space.dtype)
    assert_agrees(path, predicted(model), samples(space))


def test_vecnormalize_is_inside_whatever_it_was_given_as(tmp_path: Path) -> None:
    venv: Any = VecNormalize(vectorized(walk(spaces.Box(-np.inf, np.inf, (5,), np.float32), UNEVEN)), clip_obs=2.5)
    venv.obs_rms.mean, venv.obs_rms.var = np.linspace(-900, 900, 5), np.linspace(1e-3, 400.0, 5)
    model = trained(PPO, VecMonitor(venv), **ON_POLICY)
    venv.save(str(tmp_path / "vn.pkl"))
    model.save(tmp_path / "model.zip")
    rng = np.random.default_rng(0)
    scale = np.sqrt(venv.obs_rms.var)
    raw = [
        {"obs": (venv.obs_rms.mean + 2 * scale * rng.standard_normal((1, 5))).astype(np.float32)} for _ in range(1_000)
    ]
    infer = predicted(model, venv.normalize_obs)
    clipped = sum(bool((np.abs(venv.normalize_obs(values["obs"])) == 2.5).any()) for values in raw)
    assert clipped > 30
    without_env = PPO.load(tmp_path / "model.zip", device="cpu")
    for name, path in {
        "environment": sb3.export_policy(model, tmp_path / "a.onnx"),
        "object": sb3.export_policy(without_env, tmp_path / "b.onnx", vecnormalize=venv),
        "files": sb3.export_policy(tmp_path / "model.zip", tmp_path / "c.onnx", vecnormalize=tmp_path / "vn.pkl"),
    }.items():
        assert assert_agrees(path, infer, raw) == 1_000, name
    plain = sb3.export_policy(without_env, tmp_path / "d.onnx")
    assert_agrees(plain, predicted(model), raw)
    with pytest.raises(AssertionError):
        assert_agrees(plain, infer, raw)


def test_what_is_said_of_frames_does_not_lose_the_normalisation(tmp_path: Path) -> None:
    venv: Any = VecNormalize(vectorized(walk(BOX, UNEVEN)))
    model = trained(PPO, venv, **ON_POLICY)
    for options in ({"frame_stack": 1}, {"transpose_images": False}):
        path = sb3.export_policy(model, tmp_path / "policy.onnx", **options)
        assert_agrees(path, predicted(model, venv.normalize_obs), samples(BOX, 50))
    without = sb3.export_policy(model, tmp_path / "policy.onnx", vecnormalize=False)
    assert_agrees(without, predicted(model), samples(BOX, 50))


def test_a_checkpoint_that_was_normalised_asks_for_the_statistics(tmp_path: Path) -> None:
    venv: Any = VecNormalize(vectorized(walk(BOX, UNEVEN)))
    model = trained(SAC, venv, **OFF_POLICY)
    model.save(tmp_path / "model.zip")
    generator = torch.random.get_rng_state()
    with pytest.raises(CheckpointError, match="was trained with a VecNormalize, but does not contain it"):
        sb3.export_policy(tmp_path / "model.zip", tmp_path / "policy.onnx")
    path = sb3.export_policy(tmp_path / "model.zip", tmp_path / "policy.onnx", vecnormalize=venv)
    assert torch.equal(generator, torch.random.get_rng_state())
    assert_agrees(path, predicted(model, venv.normalize_obs), samples(BOX, 50))


def test_checkpoints_of_policies_without_a_learning_rate_are_read(tmp_path: Path) -> None:
    model = trained(ARS, RandomWalk(BOX, UNEVEN), 40, n_delta=2, seed=0, policy_kwargs=SMALL)
    model.save(tmp_path / "model.zip")
    path = sb3.export_policy(tmp_path / "model.zip", tmp_path / "policy.onnx")
    assert_agrees(path, predicted(model), samples(BOX, 50))


class HalfPolicy(ActorCriticPolicy):
    """Applies an additional function after the network."""

    def predict(self, *arguments: Any, **options: Any) -> Any:
        actions, state = super().predict(*arguments, **options)
        return 0.5 * actions, state


class HalfPPO(PPO):
    def predict(self, *arguments: Any, **options: Any) -> Any:
        return HalfPolicy.predict(self, *arguments, **options)  # type: ignore[arg-type]


def dictionary() -> spaces.Dict:
    return spaces.Dict(
        {
            "camera": IMAGE,
            "command": spaces.Discrete(4),
            "joints": spaces.Box(-5.0, 5.0, (6,), np.float32),
            "raw": spaces.Box(-5.0, 5.0, (2,), np.float64),
        }
    )


def test_dictionaries_have_a_port_for_each_key(tmp_path: Path) -> None:
    """Images with channels last, a number, and floats with and without normalisation."""
    space = dictionary()
    venv = VecNormalize(vectorized(walk(space, UNEVEN)), norm_obs_keys=["joints"])
    model = trained(PPO, venv, policy="MultiInputPolicy", **ON_POLICY)
    path = sb3.export_policy(model, tmp_path / "policy.onnx", obs_names={"joints": [f"q{i}" for i in range(6)]})
    controller = Controller.load(path)
    ports = {name: (port.dtype, port.shape) for name, port in controller.ports.items() if name != "actions"}
    assert ports == {
        "camera": ("uint8", (1, 36, 40, 3)),
        "command": ("int64", (1,)),
        "joints": ("float32", (1, 6)),
        "raw": ("float64", (1, 2)),
    }
    assert controller.ports["joints"].names == ("q0", "q1", "q2", "q3", "q4", "q5")
    assert_agrees(path, predicted(model, venv.normalize_obs), samples(space))
    with pytest.raises(MetadataError, match="Pass obs_names as a dictionary"):
        sb3.export_policy(model, tmp_path / "other.onnx", obs_names=["a"])
    with pytest.raises(MetadataError, match="obs_names has arms, but the policy has the inputs camera, command"):
        sb3.export_policy(model, tmp_path / "other.onnx", obs_names={"arms": ["a"]})


@pytest.mark.parametrize("stacked_first", [True, False])
def test_images_are_transposed_and_frames_stacked_as_memory(stacked_first: bool, tmp_path: Path) -> None:
    """Compare over episodes, whose frames start from zeros, for both orders of the wrappers."""
    venv: Any = vectorized(walk(IMAGE, spaces.Discrete(3)))
    venv = VecTransposeImage(VecFrameStack(venv, 3)) if stacked_first else VecFrameStack(VecTransposeImage(venv), 3)
    model = trained(PPO, venv, policy="CnnPolicy", **ON_POLICY | {"policy_kwargs": {}})
    path = sb3.export_policy(model, tmp_path / "policy.onnx", dynamic_batch=True)
    controller = Controller.load(path)
    assert controller.ports["obs"].shape == ("batch", 36, 40, 3)
    stacked, count, seen = venv.reset(), 0, set()
    frame = venv.unwrapped.buf_obs[None]
    while count < 100:
        expected = model.predict(stacked, deterministic=True)[0]
        np.testing.assert_array_equal(controller.step({"obs": frame})["actions"], expected)
        stacked, _, dones, _ = venv.step(expected)
        frame, count = venv.unwrapped.buf_obs[None], count + 1
        seen.add(int(expected[0]))
        if dones[0]:
            controller.reset()
    if stacked_first:
        model.save(tmp_path / "model.zip")
        other = Controller.load(
            sb3.export_policy(tmp_path / "model.zip", tmp_path / "other.onnx", frame_stack=3, transpose_images=True)
        )
        assert other.ports["obs"].shape == (1, 36, 40, 3)
        assert other.contract.memories[0].name == "frames"
        controller.reset()
        for values in samples(IMAGE, 20):
            np.testing.assert_array_equal(controller.step(values)["actions"], other.step(values)["actions"])


def test_normalisation_comes_before_or_after_stacking_by_its_statistics(tmp_path: Path) -> None:
    raw = walk(spaces.Box(-3.0, 3.0, (2,), np.float32), UNEVEN)
    venv: Any
    for venv in (VecFrameStack(VecNormalize(vectorized(raw)), 4), VecNormalize(VecFrameStack(vectorized(raw), 4))):
        model = trained(PPO, venv, **ON_POLICY)
        model.save(tmp_path / "model.zip")
        normalizer = venv if isinstance(venv, VecNormalize) else venv.venv
        assert isinstance(normalizer, VecNormalize)
        live = Controller.load(sb3.export_policy(model, tmp_path / "live.onnx"))
        saved = sb3.export_policy(
            tmp_path / "model.zip", tmp_path / "saved.onnx", vecnormalize=normalizer, frame_stack=4
        )
        normalizer.training = False
        venv.seed(3)
        stacked, from_checkpoint = venv.reset(), Controller.load(saved)
        for _ in range(60):
            frame = venv.unwrapped.buf_obs[None]
            expected = model.predict(stacked, deterministic=True)[0]
            for controller in (live, from_checkpoint):
                np.testing.assert_allclose(controller.step({"obs": frame})["actions"], expected, atol=1e-5)
            stacked, _, dones, _ = venv.step(expected)
            if dones[0]:
                live.reset()
                from_checkpoint.reset()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("action_space", "width"), [(spaces.Discrete(5), 5), (spaces.MultiDiscrete([3, 4]), 7), (spaces.MultiBinary(2), 4)]
)
def test_action_masks_are_an_input(action_space: Any, width: int, tmp_path: Path) -> None:
    env = RandomWalk(BOX, action_space)
    if isinstance(action_space, spaces.MultiBinary):
        env.action_masks = lambda: np.ones(4, dtype=bool)  # type: ignore[method-assign]
    model = trained(MaskablePPO, env, **ON_POLICY)
    path = sb3.export_policy(model, tmp_path / "policy.onnx")
    assert list(Controller.load(path).inputs) == ["obs", "action_masks"]
    rng = np.random.default_rng(0)

    def masked() -> Iterator[dict[str, np.ndarray]]:
        for values in samples(BOX):
            mask = rng.random((1, width)) < 0.5
            mask[:, [-1, 0]] = True
            yield values | {"action_masks": mask}

    assert_agrees(path, predicted(model), masked())


def test_a_recurrent_policy_runs_through_episodes(tmp_path: Path) -> None:
    model = trained(
        RecurrentPPO,
        "CartPole-v1",
        128,
        policy="MlpLstmPolicy",
        **ON_POLICY | {"policy_kwargs": {"lstm_hidden_size": 16}},
    )
    path = sb3.export_policy(model, tmp_path / "policy.onnx", dynamic_batch=True)
    controller = Controller.load(path)
    assert [memory.input for memory in controller.contract.memories] == ["h_in", "c_in"]
    env = gym.make("CartPole-v1")
    obs, state, start, episodes = env.reset(seed=0)[0], None, True, 0
    for _ in range(300):
        action, state = model.predict(obs, state=state, episode_start=np.array([start]), deterministic=True)
        assert controller.step({"obs": obs[None]})["actions"][0] == action
        obs, _, terminated, truncated, _ = env.step(action)
        start = terminated or truncated
        if start:
            obs, episodes = env.reset()[0], episodes + 1
            controller.reset()
    assert episodes >= 3
    many, states = Controller.load(path, sizes={"batch": 4}), None
    rng = np.random.default_rng(0)
    for _ in range(250):
        batch = rng.standard_normal((4, 4)).astype(np.float32)
        expected, states = model.predict(batch, state=states, episode_start=np.zeros(4), deterministic=True)
        np.testing.assert_array_equal(many.step({"obs": batch})["actions"], expected)


def test_a_trained_policy_has_the_same_return_without_torch(tmp_path: Path) -> None:
    """SAC on the pendulum, run by the controller in a process that never imports torch."""
    options = OFF_POLICY | {"learning_starts": 200, "buffer_size": 5000, "learning_rate": 3e-3}
    model = trained(SAC, make_vec_env("Pendulum-v1", seed=0), 500, **options)
    path = sb3.export_policy(model, tmp_path / "policy.onnx", rate_hz=20, action_names=["torque"])
    venv = make_vec_env("Pendulum-v1", seed=7)
    expected: Any
    lengths: Any
    expected, lengths = evaluate_policy(model, venv, n_eval_episodes=5, return_episode_rewards=True)
    code = f"""
import json, sys
import gymnasium as gym
from exploy.runtime import Controller
controller = Controller.load({str(path)!r})
env, returns, seed = gym.make("Pendulum-v1"), [], 7
for _ in range(5):
    (obs, _), total, done = env.reset(seed=seed), 0.0, False
    controller.reset()
    seed = None
    while not done:
        obs, reward, terminated, truncated, _ = env.step(controller.step({{"obs": obs[None]}})["actions"][0])
        total, done = total + float(reward), terminated or truncated
    returns.append(total)
assert "torch" not in sys.modules and "onnx" not in sys.modules
print(json.dumps(returns))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(json.loads(result.stdout), expected, rtol=1e-4)
    assert len(set(np.round(expected, 3))) == 5 and sum(lengths) == 1000


class Extractor(BaseFeaturesExtractor):
    """A custom extractor with dropout, and an operator that ONNX does not have under that name."""

    def __init__(self, observation_space: spaces.Space[Any]):
        super().__init__(observation_space, 8)
        self.linear = torch.nn.Linear(5, 8)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.dropout(torch.nn.functional.mish(self.linear(observations)))


class Branching(Extractor):
    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return super().forward(-observations if observations.sum() > 0 else observations)


class Counting(Extractor):
    calls = 0

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(observations) + 0.1 * self.calls


def with_extractor(extractor: type[Extractor]) -> Any:
    arguments = SMALL | {"features_extractor_class": extractor}
    return trained(PPO, vectorized(walk(BOX, UNEVEN)), **ON_POLICY | {"policy_kwargs": arguments})


def test_own_feature_extractors_are_exported_in_evaluation_mode(tmp_path: Path) -> None:
    model = with_extractor(Extractor)
    assert_agrees(sb3.export_policy(model, tmp_path / "policy.onnx"), predicted(model), samples(BOX))


def test_own_code_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"test_sb3.py:\d+ \(in forward\)"):
        sb3.export_policy(with_extractor(Branching), tmp_path / "policy.onnx")
    with pytest.raises(VerificationError, match="'actions'"):
        sb3.export_policy(with_extractor(Counting), tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_model_stays_as_it_is(tmp_path: Path) -> None:
    model = trained(PPO, vectorized(walk(BOX, UNEVEN)), **ON_POLICY)
    model.policy.set_training_mode(True)
    model.policy.evaluate_actions(torch.zeros(2, 5), torch.zeros(2, 2))  # leaves tensors with gradients in the policy
    before = copy.deepcopy(model.policy.state_dict())
    distribution = model.policy.action_dist.distribution
    generator = torch.random.get_rng_state()
    sb3.export_policy(model, tmp_path / "policy.onnx")
    assert model.policy.training and model.policy.action_dist.distribution is distribution
    assert all(parameter.requires_grad for parameter in model.policy.parameters())
    assert all(torch.equal(value, model.policy.state_dict()[name]) for name, value in before.items())
    assert torch.equal(generator, torch.random.get_rng_state())
    model.learn(16)


def test_the_actor_keeps_the_state_of_several_robots() -> None:
    model = trained(RecurrentPPO, "CartPole-v1", **RECURRENT)
    actor = sb3.actor_from_model(model)
    states = actor.get_state()
    assert states is not None and [tuple(state.shape) for state in states] == [(1, 1, 16)] * 2
    generator, state = torch.Generator().manual_seed(0), None
    for step in range(20):
        obs, starts = torch.randn(3, 4, generator=generator), torch.tensor([step % 5 == 0, False, step % 7 == 0])
        actor.reset(starts)
        expected, state = model.predict(obs.numpy(), state=state, episode_start=starts.numpy(), deterministic=True)
        with torch.no_grad():
            np.testing.assert_array_equal(actor(obs), expected)


class Unknown(VecEnvWrapper):
    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        return self.venv.step_wait()


def misfits() -> dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]]:
    def model(space: spaces.Space[Any] = BOX, env: Any = None) -> Any:
        return PPO("MlpPolicy", env or vectorized(walk(space, UNEVEN)), device="cpu", policy_kwargs=dict(SMALL))

    narrow = VecNormalize(vectorized(walk(spaces.Box(-1.0, 1.0, (3,), np.float32), UNEVEN)))
    keyed = VecNormalize(vectorized(walk(spaces.Dict({"a": BOX}), UNEVEN)))

    def images(folder: Path) -> Path:
        env = vectorized(walk(IMAGE, UNEVEN))
        PPO("CnnPolicy", env, device="cpu", n_steps=8, batch_size=8).save(folder / "images.zip")
        return folder / "images.zip"

    def text(folder: Path) -> Path:
        (folder / "model.zip").write_text("weights")
        return folder / "model.zip"

    def of_torch(folder: Path) -> Path:
        torch.save({"actor": torch.zeros(2)}, folder / "model.pt")
        return folder / "model.pt"

    def clash(folder: Path) -> Any:
        env = vectorized(walk(spaces.Dict({"actions": BOX}), UNEVEN))
        return PPO("MultiInputPolicy", env, device="cpu")

    return {
        "normaliser of another width": (lambda _: model(), {"vecnormalize": narrow}, r"shape \(3,\).*'obs'.*\(5,\)"),
        "normaliser of dictionaries": (lambda _: model(), {"vecnormalize": keyed}, "a dictionary, but .* one tensor"),
        "no normaliser": (lambda _: model(), {"vecnormalize": 3}, "has no `norm_obs` of a VecNormalize"),
        "no file of a normaliser": (
            lambda _: model(),
            {"vecnormalize": "none.pkl"},
            "VecNormalize file not found: none.pkl",
        ),
        "unknown wrapper": (lambda _: model(env=Unknown(vectorized(walk(BOX, UNEVEN)))), {}, "the wrapper Unknown"),
        "inference of its own": (
            lambda _: PPO(HalfPolicy, vectorized(walk(BOX, UNEVEN)), device="cpu"),
            {},
            r"HalfPolicy overrides predict\(\)",
        ),
        "an algorithm of its own": (
            lambda _: HalfPPO("MlpPolicy", vectorized(walk(BOX, UNEVEN)), device="cpu"),
            {},
            r"HalfPPO overrides predict\(\)",
        ),
        "neither true nor false": (
            lambda _: model(),
            {"transpose_images": "False"},
            "must be True or False, got 'False'",
        ),
        "frames along an unknown axis": (
            lambda _: model(spaces.Box(-1.0, 1.0, (4, 2), np.float32)),
            {"frame_stack": 2},
            "the axis along which its frames are stacked is unknown",
        ),
        "frames that do not divide": (lambda _: model(), {"frame_stack": 2}, "cannot be 2 stacked frames"),
        "no number of frames": (
            lambda _: model(),
            {"frame_stack": 0},
            "frame_stack must be an integer of 1 or more, got 0",
        ),
        "images of unknown order": (images, {}, r"Give transpose_images=True if"),
        "no checkpoint": (lambda folder: folder / "none.zip", {}, "Checkpoint not found"),
        "a text file": (text, {}, "looked for data in a zip, found a file that is not a zip"),
        "a checkpoint of torch": (of_torch, {}, "looked for data in a zip, found .*data.pkl"),
        "another object": (lambda _: torch.nn.Linear(2, 2), {}, "has no policy: looked for `policy`"),
        "a key called actions": (clash, {}, "would have the name actions"),
    }


@pytest.mark.parametrize("case", list(misfits()))
def test_what_does_not_fit_is_refused(case: str, tmp_path: Path) -> None:
    make, options, message = misfits()[case]
    with pytest.raises(ExployError, match=message) as caught:
        sb3.export_policy(make(tmp_path), tmp_path / "policy.onnx", **options)
    assert isinstance(caught.value, PolicyError | CheckpointError)
    assert not (tmp_path / "policy.onnx").exists()
