"""rl_games policies, from players, training agents and checkpoints.

The reference is the player's `get_action(obs, is_deterministic=True)`, and for a SAC agent its own `act()`. A copy of
the library's model is called, so custom networks work. The file does not contain what environment wrappers do to
observations and actions, such as clipping. A policy that was trained with mixed precision is exported in single
precision.
"""

from exploy.trainers.rl_games.export import (
    actor_from_agent,
    actor_from_checkpoint,
    actor_from_player,
    export_policy,
)

__all__ = ["actor_from_agent", "actor_from_checkpoint", "actor_from_player", "export_policy"]
