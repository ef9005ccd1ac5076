"""Policies of rl_games: players, training agents and checkpoints.

The reference is the player's `get_action(obs, is_deterministic=True)`, and for the agent of SAC its own `act()`. The
library's model is called, on a copy, so that custom networks work. What a wrapper around the environment does to
observations and actions (clipping, for example) is not known here and not in the file. A policy that was trained with
mixed precision is exported in single precision.
"""

from exploy.trainers.rl_games.export import (
    actor_from_agent,
    actor_from_checkpoint,
    actor_from_player,
    export_policy,
)

__all__ = ["actor_from_agent", "actor_from_checkpoint", "actor_from_player", "export_policy"]
