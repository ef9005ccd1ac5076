"""The policy of a Stable-Baselines3 algorithm, including all processing of `predict()`."""

from typing import Any

import numpy as np
import torch

from exploy.errors import PolicyError
from exploy.policy.policy import BATCH, Policy, PolicyInput, PolicyState, Tensors
from exploy.policy.recurrent import rnn_states, rnn_step
from exploy.trainers.sb3.wrappers import Paths

ACTION_MASKS = "action_masks"


class Sb3Policy(Policy):
    """Computes the actions of `predict(deterministic=True)` from raw observations.

    Args:
        policy: A copy of the algorithm's policy. The copy is modified.
        paths: The processing of each observation before the policy.
    """

    def __init__(self, policy: Any, paths: Paths):
        masks = _action_masks(policy)
        self_states = [state for path in paths.values() for state in path.states]
        super().__init__(
            [*(path.port for path in paths.values()), *masks],
            [*self_states, *_recurrent_states(policy)],
            libraries=("stable-baselines3", "sb3-contrib", "gymnasium"),
        )
        self.policy = policy
        self.paths = torch.nn.ModuleList(paths.values())
        self._keys = list(paths)
        self._frames = len(self_states)
        self._is_recurrent = hasattr(policy, "lstm_actor")
        self._takes_masks = bool(masks)
        if self._is_recurrent:
            policy._process_sequence = _one_step
        self._prepare_actions(policy.action_space, bool(policy.squash_output))

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute actions as `predict()` does."""
        observation, frames = self._observation(inputs, states[: self._frames])
        if self._is_recurrent:
            starts = inputs[0].new_zeros(inputs[0].shape[0], dtype=torch.float32)
            hidden = states[self._frames :]
            actions, hidden = self.policy._predict(observation, hidden, starts, deterministic=True)
            return (self._to_space(actions),), (*frames, *hidden)
        options = {ACTION_MASKS: inputs[-1]} if self._takes_masks else {}
        actions = self.policy._predict(observation, deterministic=True, **options)
        return (self._to_space(actions),), frames

    def _observation(self, inputs: Tensors, states: Tensors) -> tuple[Any, Tensors]:
        """The observation for the policy, and the frames for the next step."""
        found: dict[str | None, torch.Tensor] = {}
        kept: list[torch.Tensor] = []
        for key, path, raw in zip(self._keys, self.paths, inputs, strict=False):
            found[key], frames = path(raw, states[len(kept) :])
            kept.extend(frames)
        return found.get(None, found), tuple(kept)

    def _prepare_actions(self, space: Any, is_squashed: bool) -> None:
        self._shape = tuple(space.shape)
        self._is_bounded, self._is_squashed = hasattr(space, "low"), is_squashed
        if self._is_bounded:
            self.register_buffer("low", torch.as_tensor(space.low))
            self.register_buffer("high", torch.as_tensor(space.high))

    def _to_space(self, actions: torch.Tensor) -> torch.Tensor:
        """Rescale or clip actions to the bounds of their space, as `predict()` does."""
        actions = actions.reshape((-1, *self._shape))
        if not self._is_bounded:
            return actions
        low, high = self.get_buffer("low"), self.get_buffer("high")
        if self._is_squashed:
            return low + 0.5 * (actions + 1.0) * (high - low)
        return torch.clamp(actions, low, high)


def _one_step(features: torch.Tensor, states: Tensors, starts: torch.Tensor, lstm: Any) -> tuple[torch.Tensor, Tensors]:
    """One step of the recurrent network. `starts` is not needed: the file's memory starts from zeros."""
    return rnn_step(lstm, features, states)


def _recurrent_states(policy: Any) -> list[PolicyState]:
    return rnn_states(policy.lstm_actor) if hasattr(policy, "lstm_actor") else []


def _action_masks(policy: Any) -> list[PolicyInput]:
    """The port for action masks, if the policy takes them."""
    distribution = getattr(policy, "action_dist", None)
    if not hasattr(distribution, "apply_masking"):
        return []
    sizes = getattr(distribution, "action_dims", getattr(distribution, "action_dim", None))
    if sizes is None:
        raise PolicyError(
            f"The size of the action masks of {type(distribution).__name__} is unknown: looked for `action_dims` "
            "and `action_dim`."
        )
    return [PolicyInput(ACTION_MASKS, (BATCH, int(np.sum(sizes))), torch.bool)]
