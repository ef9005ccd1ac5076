"""Builds rl_games players from a training configuration and the weights of a checkpoint."""

import contextlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exploy.errors import CheckpointError
from exploy.trainers.common.checkpoints import load_into
from exploy.trainers.common.configuration import Configuration, read_configuration
from exploy.trainers.common.libraries import library

PLAYERS = {"a2c_continuous": "PpoPlayerContinuous", "a2c_discrete": "PpoPlayerDiscrete", "sac": "SACPlayer"}
_VECTOR_NETWORKS = ("actor_critic", "soft_actor_critic")
_FEEDFORWARD_INPUTS = ("a2c_network.actor_mlp.0.weight", "actor.trunk.0.weight")
_RECURRENT_INPUTS = ("a2c_network.rnn.rnn.weight_ih_l0", "a2c_network.a_rnn.rnn.weight_ih_l0")


def model_weights(loaded: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The weights of the model, without the prefixes of torch.compile, and with separately saved statistics."""
    for name in ("model", "actor", "running_mean_std"):
        found = loaded.get(name)
        if found is not None and not (isinstance(found, dict) and all(map(torch.is_tensor, found.values()))):
            raise CheckpointError(
                f"The checkpoint is not a checkpoint of rl_games: its {name!r} must be a dictionary of tensors."
            )
    weights = {str(key).removeprefix("_orig_mod."): value for key, value in (loaded.get("model") or {}).items()}
    if not any(key.startswith("running_mean_std.") for key in weights):
        beside = loaded.get("running_mean_std") or {}
        weights |= {f"running_mean_std.{key}": value for key, value in beside.items()}
    if loaded.get("actor"):
        weights |= {f"actor.{key}": value for key, value in loaded["actor"].items()}
    return weights


def read_params(config: Configuration) -> dict[str, Any]:
    """A copy of the `params` entry of a training configuration.

    Raises:
        CheckpointError: If the configuration cannot be read, or `params` is missing.
    """
    params = read_configuration(config, "rl-games").get("params")
    if not isinstance(params, dict):
        raise CheckpointError("An rl_games training configuration must have an entry `params`, but it is missing.")
    return params


def build_player(params: dict[str, Any], weights: dict[str, torch.Tensor], spaces: dict[str, Any]) -> Any:
    """The player that rl_games creates for an environment with these spaces."""
    algorithm = _algorithm(params)
    observation_space, action_space = spaces["observation_space"], spaces["action_space"]
    shape = _observation_shape(params, weights) if observation_space is None else None
    missing = [*_missing_in(params, algorithm)]
    if observation_space is None and shape is None:
        missing.append("observation_space= (it cannot be read from the weights)")
    if action_space is None and _needs_bounds(params, algorithm):
        missing.append("action_space= (actions are rescaled to its bounds)")
    if missing:
        raise CheckpointError(f"The policy cannot be built. Missing: {', '.join(missing)}.")
    gym = library("gymnasium.spaces", "rl-games")
    if observation_space is None:
        observation_space = gym.Box(-np.inf, np.inf, shape, np.float32)
    if action_space is None:
        action_space = _action_space(weights)
    config = params["config"]
    for name in ("player", "vec_env"):
        config.pop(name, None)
    config |= {
        "env_name": "none",
        "device_name": "cpu",
        "normalize_value": any(key.startswith("value_mean_std.") for key in weights),
        "env_info": {
            "observation_space": observation_space,
            "action_space": action_space,
            "value_size": _rows(weights, "a2c_network.value.weight", 1),
        },
    }
    player_class = getattr(library("rl_games.algos_torch.players", "rl-games"), PLAYERS[algorithm])
    try:
        with contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng(devices=[]):
            return player_class(params)
    except Exception as error:
        raise CheckpointError(
            f"rl_games cannot build the player from this configuration: {type(error).__name__}: {error}"
        ) from error


def _algorithm(params: Mapping[str, Any]) -> str:
    algorithm = params.get("algo")
    name = algorithm.get("name") if isinstance(algorithm, Mapping) else None
    if name is not None and name not in PLAYERS:
        raise CheckpointError(
            f"params.algo.name must be one of {', '.join(PLAYERS)}, got {name!r}. For a custom algorithm, build its "
            "player, restore the checkpoint with it, and use actor_from_player()."
        )
    return str(name)


def _missing_in(params: Mapping[str, Any], algorithm: str) -> Iterator[str]:
    paths = ["algo.name", "model.name", "network.name", "config.normalize_input"]
    if algorithm == "a2c_continuous":
        paths.append("config.clip_actions")
    for path in paths:
        found: Any = params
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is None:
            yield f"params.{path} in config"


def _needs_bounds(params: Mapping[str, Any], algorithm: str) -> bool:
    config = params.get("config")
    clips = algorithm == "a2c_continuous" and isinstance(config, Mapping) and bool(config.get("clip_actions"))
    return clips or algorithm == "sac"


def _observation_shape(params: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> tuple[int, ...] | None:
    """The shape of vector observations, or None if it cannot be read from the weights."""
    mean = weights.get("running_mean_std.running_mean")
    if mean is not None:
        return tuple(mean.shape) if mean.ndim == 1 else None
    network = params.get("network")
    if not isinstance(network, Mapping) or "cnn" in network or network.get("name") not in _VECTOR_NETWORKS:
        return None
    recurrent = network.get("rnn")
    first = isinstance(recurrent, Mapping) and recurrent.get("before_mlp", False)
    names = _RECURRENT_INPUTS if first else _FEEDFORWARD_INPUTS
    found = next((weights[name] for name in names if name in weights), None)
    return None if found is None else (int(found.shape[1]),)


def _action_space(weights: Mapping[str, torch.Tensor]) -> Any:
    """An action space with the number of actions from the weights. Its bounds are not used."""
    gym = library("gymnasium.spaces", "rl-games")
    if "a2c_network.mu.weight" in weights:
        return gym.Box(-1.0, 1.0, (_rows(weights, "a2c_network.mu.weight"),))
    if "a2c_network.logits.weight" in weights:
        return gym.Discrete(_rows(weights, "a2c_network.logits.weight"))
    parts: list[Any] = []
    while f"a2c_network.logits.{len(parts)}.weight" in weights:
        parts.append(gym.Discrete(_rows(weights, f"a2c_network.logits.{len(parts)}.weight")))
    if not parts:
        raise CheckpointError(
            "The policy cannot be built. Missing: action_space= (it cannot be read from the weights)."
        )
    return gym.Tuple(parts)


def _rows(weights: Mapping[str, torch.Tensor], name: str, otherwise: int = 0) -> int:
    return int(weights[name].shape[0]) if name in weights else otherwise


def require_one_scale(player: Any) -> None:
    """Raise if the player and the agent of a SAC checkpoint would return different actions."""
    low, high = player.action_space.low, player.action_space.high
    agent = library("rl_games.algos_torch.sac_agent", "rl-games").SACAgent
    if hasattr(agent, "rescale_actions") and not (np.all(low == -1) and np.all(high == 1)):
        raise CheckpointError(
            f"The actions of this checkpoint range from {low.tolist()} to {high.tolist()}. The SAC agent rescales "
            "actions to these bounds during training, but the player of this rl_games version does not. Restore the "
            "checkpoint with one of them, and use actor_from_agent() or actor_from_player()."
        )


def load_statistics(model: Any, loaded: Mapping[str, Any], path: str | Path) -> None:
    """Load the observation statistics that a SAC checkpoint stores separately from the actor.

    Raises:
        CheckpointError: If only one of checkpoint and configuration has observation statistics.
    """
    held, wanted = "running_mean_std" in loaded, bool(model.normalize_input)
    if held != wanted:
        raise CheckpointError(
            f"{path} {'contains' if held else 'contains no'} observation statistics (`running_mean_std`), but "
            f"normalize_input is {wanted} in the configuration. Give the configuration of this checkpoint."
        )
    if wanted:
        load_into(model.running_mean_std, loaded["running_mean_std"], path, "the normaliser")
