"""From a player, agent or checkpoint of rl_games to an actor and to a file."""

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
    """The policy of a player, with the actions of its `get_action(obs, is_deterministic=True)`.

    Single discrete actions have the shape (batch,), and several (batch, number).

    Raises:
        PolicyError: If it is no player of rl_games, masks actions, or its model is not supported.
    """
    return actor_of(player)


def actor_from_agent(agent: Any) -> Policy:
    """The policy of a training agent: the actions of its most likely choice, as it would send them to the environment.

    This is what a player with the same weights gives, except for SAC: the agent rescales actions to their bounds,
    which the player does not do in every version of rl_games.

    Raises:
        PolicyError: If it is no agent of rl_games, masks actions, or its model is not supported.
    """
    return actor_of(agent)


def actor_from_checkpoint(
    path: str | Path,
    *,
    config: str | Path | Mapping[str, Any],
    observation_space: Any = None,
    action_space: Any = None,
) -> Policy:
    """The policy of a checkpoint, with the network that rl_games builds from the configuration of the training.

    Args:
        path: The checkpoint; only tensors and plain values are read.
        config: The configuration of the training (a dictionary with `params`, or the path of its YAML file). It must
            say `normalize_input`, and for continuous actions `clip_actions`.
        observation_space: The space of observations. Not needed for one vector in single precision, whose size the
            weights tell.
        action_space: The space of actions. Needed where actions are brought to its bounds (`clip_actions`, SAC).

    Raises:
        CheckpointError: If it is no checkpoint of rl_games, does not fit, or something that it does not hold is
            missing.
        PolicyError: For the reasons of `actor_from_player()`.
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
    """Export a policy of rl_games as one ONNX file.

    Args:
        source: A player, a training agent, or the path of a checkpoint.
        path: The file to write.
        config: For a checkpoint, see `actor_from_checkpoint()`.
        observation_space: For a checkpoint, see there.
        action_space: For a checkpoint, see there.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Returns:
        The path of the file.

    Raises:
        PolicyError: If the source cannot be exported, or options are given that it does not take.
        CheckpointError: For the reasons of `actor_from_checkpoint()`.
        ExployError: For the reasons of `exploy.driver.policy_export.export_policy()`.
    """
    extras = {"config": config, "observation_space": observation_space, "action_space": action_space}
    given = {name: value for name, value in extras.items() if value is not None}
    if not isinstance(source, str | Path):
        if given:
            raise PolicyError(f"A {type(source).__name__} holds its own {', '.join(given)}; leave it out.")
        return policy_export.export_policy(actor_of(source), path, **options)
    if config is None:
        raise CheckpointError(f"{source} holds weights and no architecture. Give config= (that of the training).")
    return policy_export.export_policy(actor_from_checkpoint(source, **given), path, **options)
