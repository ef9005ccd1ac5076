"""Converts an rl_games player, agent or checkpoint to an actor or a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from exploy.driver import policy_export
from exploy.errors import CheckpointError, PolicyError
from exploy.policy.policy import Policy
from exploy.trainers.common.attributes import has
from exploy.trainers.common.checkpoints import entry, load_into, load_tensors
from exploy.trainers.rl_games.checkpoint import (
    build_player,
    load_statistics,
    model_weights,
    read_params,
    require_one_scale,
)
from exploy.trainers.rl_games.policy import actor_of

LIBRARY = "rl_games"


def actor_from_player(player: Any) -> Policy:
    """The policy of a player; it returns what `get_action(obs, is_deterministic=True)` returns.

    A single discrete action has the shape (batch,). Several have the shape (batch, number).

    Raises:
        PolicyError: If it is not an rl_games player, masks actions, or its model is not supported.
    """
    return actor_of(player)


def actor_from_agent(agent: Any) -> Policy:
    """The policy of a training agent: its most likely actions, as it would send them to the environment.

    A player with the same weights returns the same actions, except for SAC: the agent rescales actions to their bounds,
    and in some versions of rl_games the player does not.

    Raises:
        PolicyError: If it is not an rl_games agent, masks actions, or its model is not supported.
    """
    return actor_of(agent)


def actor_from_checkpoint(
    path: str | Path,
    *,
    config: str | Path | Mapping[str, Any],
    observation_space: Any = None,
    action_space: Any = None,
) -> Policy:
    """The policy of a checkpoint, with the network that rl_games builds from the training configuration.

    Args:
        path: The checkpoint; only tensors and plain values are read.
        config: The training configuration (a dictionary with `params`, or the path of its YAML file). It must contain
            `normalize_input`, and for continuous actions `clip_actions`.
        observation_space: The observation space. Not needed for a single float32 vector, because its size can be read
            from the weights.
        action_space: The action space. Needed if actions are rescaled to its bounds (`clip_actions`, SAC).

    Raises:
        CheckpointError: If the file is not a checkpoint of rl_games, does not match the configuration, or an argument
            is missing.
        PolicyError: As in `actor_from_player()`.
    """
    loaded = load_tensors(path)
    entry(loaded, path, "model", "actor", library=LIBRARY)
    params = read_params(config)
    weights = model_weights(loaded)
    spaces = {"observation_space": observation_space, "action_space": action_space}
    player = build_player(params, weights, spaces)
    if has(player.model, "sac_network"):
        require_one_scale(player)
        load_into(player.model.sac_network.actor, entry(loaded, path, "actor", library=LIBRARY), path, "the actor")
        load_statistics(player.model, loaded, path)
    else:
        entry(loaded, path, "model", library=LIBRARY)
        load_into(player.model, weights, path, "the network of the configuration")
    return actor_from_player(player)


def export_policy(
    source: Any,
    path: str | Path,
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    observation_space: Any = None,
    action_space: Any = None,
    **options: Unpack[policy_export.ExportOptions],
) -> Path:
    """Export an rl_games policy to one ONNX file.

    Args:
        source: A player, a training agent, or the path of a checkpoint.
        path: The file to write.
        config: For a checkpoint, see `actor_from_checkpoint()`.
        observation_space: For a checkpoint, see `actor_from_checkpoint()`.
        action_space: For a checkpoint, see `actor_from_checkpoint()`.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Returns:
        The path of the file.

    Raises:
        PolicyError: If the source cannot be exported, or arguments are given that do not apply to it.
        CheckpointError: As in `actor_from_checkpoint()`.
        ExployError: As in `exploy.driver.policy_export.export_policy()`.
    """
    extras = {"config": config, "observation_space": observation_space, "action_space": action_space}
    given = {name: value for name, value in extras.items() if value is not None}
    if not isinstance(source, str | Path):
        if given:
            raise PolicyError(f"A {type(source).__name__} has its own {', '.join(given)}. Leave it out.")
        return policy_export.export_policy(actor_of(source), path, **options)
    if config is None:
        raise CheckpointError(
            f"{source} contains weights but no architecture. Give config= (the training configuration)."
        )
    return policy_export.export_policy(actor_from_checkpoint(source, **given), path, **options)
