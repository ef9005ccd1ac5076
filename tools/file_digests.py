"""Exports one file of every kind and prints their digests, to check that a code change does not change the files.

    python -m tools.file_digests FOLDER

Install the package from a wheel and run this on a copy of the repository without `.git`, with SOURCE_DATE_EPOCH set,
because files store their date and the commit of the environment code. Everything is imported by its documented path,
so that two versions of the code can be compared.
"""

import argparse
import contextlib
import copy
import hashlib
import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

Make = Callable[[Path], object]


def _tutorial(kind: str) -> Make:
    def make(path: Path) -> object:
        from exploy.exporter.core.actor import add_actor_memory
        from exploy.exporter.core.components import Group, Input, Memory, Output
        from exploy.exporter.core.exporter import export_environment_as_onnx
        from tests.support import tutorial

        source = tutorial.DataSource()
        env = (tutorial.Environment if kind == "plain" else tutorial.EnvironmentWithTorchModule)(source)
        exportable = tutorial.ExportableEnv(env)
        manager = exportable.context_manager()
        actor: Any = (tutorial.RNNActor if kind == "rnn" else tutorial.Actor)(env.num_obs, env.num_act).eval()
        if isinstance(env, tutorial.EnvironmentWithTorchModule):
            manager.add_module(env.module)
        if kind == "rnn":
            actor(exportable.empty_actor_observations())
            add_actor_memory(manager, actor.get_state)
        manager.add_components([Input("foo", lambda: source.foo), Output("out", lambda: env._output)])
        manager.add_component(Memory("actions", lambda: env._actions))
        manager.add_group(Group("bar_baz_group", [Input("bar", lambda: source.bar), Input("baz", lambda: source.baz)]))
        return export_environment_as_onnx(exportable, actor, path.parent, path.name)

    return make


def _demo(path: Path) -> object:
    from exploy.demo.cart_pole import CartPole
    from exploy.demo.exportable import ExportableCartPole
    from exploy.demo.policy import load_trained_actor
    from exploy.exporter.core.exporter import export_environment_as_onnx

    return export_environment_as_onnx(
        ExportableCartPole(CartPole(seed=1)), load_trained_actor(), path.parent, path.name
    )


def _mlp(path: Path) -> object:
    from benchmarks.mlp_environment import MlpEnvironment, make_network
    from exploy.exporter.core.exporter import export_environment_as_onnx

    return export_environment_as_onnx(MlpEnvironment(), make_network(), path.parent, path.name)


def _lstm(path: Path) -> object:
    from benchmarks.lstm_actor import LstmActor
    from benchmarks.mlp_environment import NUM_ACTIONS, NUM_OBSERVATIONS, MlpEnvironment
    from exploy.exporter.core.actor import add_actor_memory
    from exploy.exporter.core.exporter import export_environment_as_onnx

    env, actor = MlpEnvironment(), LstmActor(NUM_OBSERVATIONS, NUM_ACTIONS)
    add_actor_memory(env.context_manager(), actor.get_state)
    return export_environment_as_onnx(env, actor, path.parent, path.name)


def _sb3(path: Path) -> object:
    from stable_baselines3 import PPO

    from exploy.exporter.frameworks import sb3

    return sb3.export_policy(PPO("MlpPolicy", "Pendulum-v1", seed=0, device="cpu"), path)


def _rsl_rl(path: Path) -> object:
    from rsl_rl.models import MLPModel
    from tensordict import TensorDict

    from exploy.exporter.frameworks import rsl_rl

    observations = TensorDict({"policy": torch.zeros(1, 5)}, batch_size=1)
    model = MLPModel(observations, {"actor": ["policy"]}, "actor", 2, hidden_dims=[16, 16], obs_normalization=True)
    return rsl_rl.export_policy(model, path, obs_shapes={"policy": 5})


def _skrl(path: Path) -> object:
    from gymnasium import spaces
    from skrl.utils.model_instantiators.torch import gaussian_model

    from exploy.exporter.frameworks import skrl

    model = gaussian_model(
        observation_space=spaces.Box(-np.inf, np.inf, (5,)),
        action_space=spaces.Box(-1.0, 1.0, (2,)),
        network=[{"name": "net", "input": "OBSERVATIONS", "layers": [16, 16], "activations": "elu"}],
        output="ACTIONS",
        device="cpu",
    )
    model.init_state_dict(role="policy")
    return skrl.export_policy(model, path)


def _rl_games(path: Path) -> object:
    from gymnasium import spaces
    from rl_games.algos_torch.players import PpoPlayerContinuous

    from exploy.exporter.frameworks import rl_games

    space = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": {"name": "default"},
        "sigma_init": {"name": "const_initializer", "val": 0},
        "fixed_sigma": True,
    }
    mlp = {"units": [16, 16], "activation": "elu", "initializer": {"name": "default"}}
    spaces_of_env = {
        "observation_space": spaces.Box(-np.inf, np.inf, (5,), np.float32),
        "action_space": spaces.Box(-2.0, 2.0, (2,)),
    }
    parameters = {
        "seed": 3,
        "algo": {"name": "a2c_continuous"},
        "model": {"name": "continuous_a2c_logstd"},
        "network": {"name": "actor_critic", "separate": False, "space": {"continuous": space}, "mlp": mlp},
        "config": {
            "name": "digest",
            "env_name": "digest",
            "device_name": "cpu",
            "device": "cpu",
            "normalize_input": True,
            "normalize_value": True,
            "clip_actions": True,
            "reward_shaper": {"scale_value": 1.0},
            "env_info": spaces_of_env,
        },
    }
    player = PpoPlayerContinuous(copy.deepcopy(parameters))
    player.has_batch_dimension = True
    player.reset()
    return rl_games.export_policy(player, path)


def _cleanrl(path: Path) -> object:
    from gymnasium import spaces

    from exploy.exporter.frameworks import cleanrl
    from tests.support.cleanrl import ContinuousAgent

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (5,), np.float32), spaces.Box(-1.0, 1.0, (2,))
    envs = SimpleNamespace(single_observation_space=observation_space, single_action_space=action_space)
    options: dict[str, Any] = {"normalization": None, "clip_actions": None, "observation_space": observation_space}
    return cleanrl.export_policy(ContinuousAgent(envs), path, **options)


def _gbc(path: Path) -> object:
    from exploy.exporter.policy import export_policy_as_onnx
    from tests.support import gbc

    embedding, reference = gbc.Embedding(gbc.WIDTH, 16, 4), gbc.Embedding(gbc.REF_WIDTH, 16, 3)
    export_policy_as_onnx(gbc.ActorCritic(gbc.Transformer(embedding, reference, 16)), path.parent, filename=path.name)
    return path


def _torchrl(path: Path) -> object:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule

    from exploy.exporter.frameworks import torchrl

    network = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    policy = TensorDictModule(network, in_keys=["observation"], out_keys=["action"])
    return torchrl.export_policy(policy, TensorDict({"observation": torch.zeros(1, 4)}, [1]), path)


FILES: dict[str, Make] = {
    "demo": _demo,
    "tutorial": _tutorial("plain"),
    "tutorial_with_module": _tutorial("module"),
    "tutorial_with_rnn": _tutorial("rnn"),
    "benchmark_mlp": _mlp,
    "benchmark_lstm": _lstm,
    "sb3": _sb3,
    "rsl_rl": _rsl_rl,
    "skrl": _skrl,
    "rl_games": _rl_games,
    "cleanrl": _cleanrl,
    "gbc": _gbc,
    "torchrl": _torchrl,
}


def main() -> None:
    """Export all files to a folder, and print one line with the SHA-256 of each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    if "SOURCE_DATE_EPOCH" not in os.environ:
        parser.error("set SOURCE_DATE_EPOCH, otherwise every file has a different date")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in FILES.items():
        torch.manual_seed(0)
        np.random.seed(0)
        with contextlib.redirect_stdout(io.StringIO()):
            make(folder / f"{name}.onnx")
        print(f"{hashlib.sha256((folder / f'{name}.onnx').read_bytes()).hexdigest()}  {name}.onnx", flush=True)


if __name__ == "__main__":
    main()
