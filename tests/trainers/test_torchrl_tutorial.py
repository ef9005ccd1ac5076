"""The tutorial from training to the other backends, with current names for removed functions."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchrl")
pytest.importorskip("ale_py")

from torchrl.envs import set_exploration_type

from exploy.exporter.frameworks.torchrl import export_policy
from exploy.runtime import Controller
from tests.trainers.test_torchrl_pong import dqn, pong

pytestmark = pytest.mark.expensive  # plays Atari


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Any]:
    """The tutorial's training loop for two batches of a few frames. The library warns about its own code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train()


def train() -> tuple[Any, Any]:
    from torch.optim import Adam
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    from torchrl.objectives import DQNLoss, SoftUpdate

    env = pong()
    env.set_seed(0)
    policy, explorative = dqn(env)
    collector = Collector(env, explorative, frames_per_batch=20, total_frames=40, init_random_frames=20)
    buffer = ReplayBuffer(storage=LazyTensorStorage(100))
    loss = DQNLoss(value_network=policy, action_space=env.action_spec, delay_value=True)
    optimizer, updater = Adam(loss.parameters()), SoftUpdate(loss, eps=0.99)
    before = torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])
    for data in collector:
        buffer.extend(data)
        losses = loss(buffer.sample(16))
        losses["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        updater.step()
    collector.shutdown()
    after = torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])
    assert not torch.equal(before, after)
    return env, explorative


@pytest.mark.parametrize("backend", ["onnx", "torch_export", "aot_inductor"])
def test_the_trained_policy_runs_the_same_on_every_backend(
    backend: str, trained: tuple[Any, Any], tmp_path: Path
) -> None:
    env, explorative = trained
    example = env.base_env.fake_tensordict()
    with set_exploration_type("DETERMINISTIC"):
        path = export_policy(explorative, example, tmp_path / "policy", transforms=env, backend=backend)
    controller, rng, seen = Controller.load(path, allow_code=True), np.random.default_rng(0), set()
    assert controller.contract.backend == backend and controller.selftest() > 0
    for _ in range(30):
        screen = rng.integers(0, 256, (210, 160, 3), dtype=np.uint8) * np.uint8(rng.integers(0, 2))
        with torch.no_grad(), set_exploration_type("DETERMINISTIC"):
            tensordict = env.transform[:-1](example.clone().set("pixels", torch.from_numpy(screen)))
            expected = int(explorative(tensordict)["action"])
        assert int(controller.step({"pixels": screen})["action"]) == expected
        seen.add(expected)
    assert len(seen) > 1
