"""The tutorial on exporting TorchRL modules: a Pong policy with its transforms that runs without TorchRL."""

import json
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchrl")
pytest.importorskip("ale_py")

from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import (
    Compose,
    GrayScale,
    GymEnv,
    Resize,
    StepCounter,
    ToTensorImage,
    TransformedEnv,
    set_exploration_type,
)
from torchrl.modules import ConvNet, EGreedyModule, QValueModule

from exploy.exporter.frameworks.torchrl import export_policy
from exploy.runtime import Controller
from tests.trainers.torchrl_support import import_torchvision

pytestmark = pytest.mark.expensive  # plays Atari

STEPS = 1000


def pong(frame_skip: int = 4) -> Any:
    import_torchvision()
    base = GymEnv("ALE/Pong-v5", categorical_action_encoding=True, frame_skip=frame_skip)
    transforms = Compose(ToTensorImage(), Resize(84, interpolation="nearest"), GrayScale(), StepCounter())
    return TransformedEnv(base, transforms)


def dqn(env: Any) -> tuple[Any, Any]:
    """A policy with random weights that depends on the ball, so that it chooses different actions."""
    torch.manual_seed(0)
    network = ConvNet.default_atari_dqn(num_actions=env.action_spec.space.n)
    values = TensorDictModule(network, in_keys=["pixels"], out_keys=["action_value"])
    policy = TensorDictSequential(values, QValueModule(spec=env.action_spec))
    with torch.no_grad():
        policy(env.reset())
        still = torch.stack([env.rollout(5)["pixels"].mean(0)])
        list(network.parameters())[-1].sub_(network(still)[0])
    exploration = EGreedyModule(env.action_spec, annealing_num_steps=100_000, eps_init=0.5)
    return policy, TensorDictSequential(policy, exploration)


def simulator(env: Any) -> Any:
    return env.base_env._env.unwrapped


def settings_of(env: Any, seed: int) -> dict[str, Any]:
    """The action handling and seeding of the training environment."""
    env.set_seed(seed)
    env.reset()
    game = simulator(env)
    return {
        "frame_skip": game._frameskip,
        "actions": [action.value for action in game._action_set],
        "repeat_action_probability": game.ale.getFloat("repeat_action_probability"),
        "random_seed": game.ale.getInt("random_seed"),
    }


ON_THE_ROBOT = """
    import json, sys, zlib
    for name in ("torch", "torchrl", "tensordict", "gymnasium"):
        sys.modules[name] = None  # cannot be imported from here on
    import numpy as np
    from ale_py import Action, ALEInterface, LoggerMode, roms
    from exploy.runtime import Controller

    path, settings, steps = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", settings["random_seed"])
    ale.setFloat("repeat_action_probability", settings["repeat_action_probability"])
    ale.loadROM(roms.get_rom_path("pong"))
    ale.reset_game()
    controller = Controller.load(path)
    actions, screens = [], []
    for _ in range(steps):
        screen = ale.getScreenRGB()
        action = int(controller.step({"pixels": screen})["action"])
        actions.append(action)
        screens.append(zlib.crc32(screen.tobytes()))
        for _ in range(settings["frame_skip"]):
            ale.act(Action(settings["actions"][action]))
        if ale.game_over():
            ale.reset_game()
            controller.reset()
    print(json.dumps({"actions": actions, "screens": screens}))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    env = pong()
    _, explorative = dqn(env)
    path = tmp_path_factory.mktemp("pong") / "policy.onnx"
    with set_exploration_type("DETERMINISTIC"):
        export_policy(explorative, env.base_env.fake_tensordict(), path, transforms=env)
    return env, explorative, path


def test_pong_is_played_without_torch_as_torchrl_plays_it(exported: tuple[Any, Any, Path]) -> None:
    env, policy, path = exported
    settings = settings_of(env, seed=3)
    assert settings["frame_skip"] == 4 and len(settings["actions"]) == 6
    command = [sys.executable, "-c", textwrap.dedent(ON_THE_ROBOT), str(path), json.dumps(settings), str(STEPS)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    played = json.loads(result.stdout.splitlines()[-1])
    env.set_seed(3)
    screens, actions = [], []
    with torch.no_grad(), set_exploration_type("DETERMINISTIC"):
        tensordict = env.reset()
        for _ in range(STEPS):
            screens.append(zlib.crc32(simulator(env).ale.getScreenRGB().tobytes()))
            tensordict = policy(tensordict)
            actions.append(int(tensordict["action"]))
            _, tensordict = env.step_and_maybe_reset(tensordict)
    assert len(set(actions)) > 1 and len(set(screens)) > STEPS // 2
    assert played["screens"] == screens
    assert played["actions"] == actions


def test_what_the_tutorial_exports_by_hand_is_exported_as_well(exported: tuple[Any, Any, Path], tmp_path: Path) -> None:
    env, explorative, path = exported
    policy_transform = TensorDictSequential(env.transform[:-1], explorative.requires_grad_(False))
    pixels = env.base_env.fake_tensordict()["pixels"]
    with set_exploration_type("DETERMINISTIC"):
        by_hand = export_policy(policy_transform.select_out_keys("action"), {"pixels": pixels}, tmp_path / "policy")
    controllers = [Controller.load(path), Controller.load(by_hand)]
    rng = np.random.default_rng(0)
    for _ in range(20):
        screen = rng.integers(0, 256, (210, 160, 3), dtype=np.uint8)
        assert len({int(controller.step({"pixels": screen})["action"]) for controller in controllers}) == 1


@pytest.mark.filterwarnings("ignore:Creating .* which inherits from WeightUpdaterBase:DeprecationWarning")
def test_the_training_loop_of_the_tutorial_and_what_it_trained(tmp_path: Path) -> None:
    from torchrl.collectors import Collector
    from torchrl.objectives import DQNLoss, SoftUpdate

    env = pong()
    policy, explorative = dqn(env)
    exploration = explorative[-1]
    frames: Any = {"frames_per_batch": 20, "total_frames": 60, "init_random_frames": 20}
    collector = Collector(env, explorative, auto_register_policy_transforms=False, **frames)
    buffer = ReplayBuffer(storage=LazyTensorStorage(200))
    loss = DQNLoss(value_network=policy, action_space=env.action_spec, delay_value=True)
    optimizer, updater = torch.optim.Adam(loss.parameters()), SoftUpdate(loss, eps=0.99)
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    for data in collector:
        buffer.extend(data)
        loss(buffer.sample(16))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        exploration.step(data.numel())
        updater.step()
    collector.shutdown(close_env=False)
    assert not all(torch.equal(one, other) for one, other in zip(before, policy.parameters(), strict=True))
    path = export_policy(explorative, env.base_env.fake_tensordict(), tmp_path / "policy", transforms=env)
    controller = Controller.load(path)
    with torch.no_grad(), set_exploration_type("DETERMINISTIC"):
        for screen in env.base_env.rollout(30)["pixels"]:
            tensordict = env.transform[:-1](env.base_env.fake_tensordict().select("pixels").set("pixels", screen))
            assert int(controller.step({"pixels": screen.numpy()})["action"]) == int(policy(tensordict)["action"])
    env.close()


def test_the_explorative_policy_of_the_tutorial_explores(exported: tuple[Any, Any, Path], tmp_path: Path) -> None:
    env, explorative, path = exported
    with set_exploration_type("RANDOM"):
        random = export_policy(explorative, env.base_env.fake_tensordict(), tmp_path / "random", transforms=env, seed=7)
    screen = simulator(env).ale.getScreenRGB()
    greedy = int(Controller.load(path).step({"pixels": screen})["action"])
    controller = Controller.load(random)
    drawn = np.array([int(controller.step({"pixels": screen})["action"]) for _ in range(600)])
    assert set(drawn) == set(range(6))
    assert abs((drawn == greedy).mean() - (0.5 + 0.5 / 6)) < 0.09
