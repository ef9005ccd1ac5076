"""An rl_games model as a pure step, including the action processing of players and agents."""

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from exploy.capture.quiet_loggers import quiet_loggers
from exploy.errors import PolicyError
from exploy.policy.copies import own_copy
from exploy.policy.normalization import require_matching_size
from exploy.policy.policy import BATCH, Policy, PolicyInput, PolicyState, Tensors
from exploy.policy.recurrent import named_states
from exploy.trainers.common.attributes import attribute, has
from exploy.trainers.common.deterministic_sampling import DeterministicSampling
from exploy.trainers.common.libraries import library
from exploy.trainers.common.trial import failure_of, trial_inputs

PACKAGE = "rl-games"
Finish = Callable[[torch.Tensor], torch.Tensor]


class _RlGamesPolicy(Policy):
    """An rl_games model and the processing of its result."""

    def __init__(self, model: Any, inputs: Sequence[PolicyInput], states: Sequence[PolicyState], by_key: bool):
        super().__init__(inputs, states, libraries=(PACKAGE,))
        self._model = model
        self._by_key = by_key

    def _observations(self, inputs: Tensors) -> Any:
        if not self._by_key:
            return _scaled_bytes(inputs[0])
        return {item.name: _scaled_bytes(value) for item, value in zip(self.inputs, inputs, strict=True)}


class _PpoPolicy(_RlGamesPolicy):
    """The mean of a continuous head, or the most likely action of discrete heads.

    Args:
        unused: The number of recurrent states of the critic, which follow those in `states`.
        finish: The function applied to continuous actions.
    """

    def __init__(self, *args: Any, unused: int, finish: Finish):
        super().__init__(*args)
        self._unused = unused
        self._finish = finish

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute actions as the player does."""
        passed = [*states, *(torch.zeros_like(states[0]) for _ in range(self._unused))]
        values = {
            "is_train": False,
            "prev_actions": None,
            "obs": self._observations(inputs),
            "rnn_states": passed if states else None,
        }
        with DeterministicSampling():
            result = self._model(values)
        return (self._actions(result),), tuple(result["rnn_states"][: len(states)]) if states else ()

    def _actions(self, result: Mapping[str, Any]) -> torch.Tensor:
        if "mus" in result:
            return self._finish(result["mus"])
        logits = result["logits"]
        if isinstance(logits, torch.Tensor):
            return torch.argmax(logits, dim=-1)
        return torch.stack([torch.argmax(part, dim=-1) for part in logits], dim=-1)


class _SacPolicy(_RlGamesPolicy):
    """The squashed mean of SAC's actor."""

    def __init__(self, *args: Any, finish: Finish):
        super().__init__(*args)
        self._finish = finish

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute actions as the player or the agent does."""
        distribution = self._model.actor(self._model.norm_obs(inputs[0]))
        return (self._finish(distribution.mean),), ()


def _scaled_bytes(observation: torch.Tensor) -> torch.Tensor:
    return observation.float() / 255.0 if observation.dtype == torch.uint8 else observation


def actor_of(owner: Any) -> Policy:
    """The policy of a player or an agent, with a copy of its model."""
    found = attribute(owner, "model", what="model of rl_games")
    found = getattr(found, "_orig_mod", found)
    if not isinstance(found, torch.nn.Module) or not (has(found, "a2c_network") or has(found, "sac_network")):
        raise PolicyError(
            f"The model of a {type(owner).__module__}.{type(owner).__name__} is a {type(found).__name__}, not an "
            "rl_games model: it must be a torch.nn.Module with `a2c_network` or `sac_network`."
        )
    if _masks_actions(owner):
        raise PolicyError(
            "The agent uses action masks of the environment, which cannot be exported. Use a policy without "
            "action masks."
        )
    space = _observation_space(owner)
    inputs = list(_ports(space))
    model = _without_scripts(own_copy(found))
    _require_fit(model, inputs)
    by_key = type(space).__name__ == "Dict"
    if has(model, "sac_network"):
        policy: _RlGamesPolicy = _SacPolicy(model, inputs, (), by_key, finish=_finish_of_sac(owner))
        _require_computable(policy)
        return policy.eval()
    return _ppo_policy(owner, model, inputs, by_key).eval()


def _masks_actions(owner: Any) -> bool:
    asked = getattr(getattr(owner, "env", None), "has_action_mask", None)
    return bool(getattr(owner, "use_action_masks", False) or (callable(asked) and asked()))


def _ppo_policy(owner: Any, model: Any, inputs: Sequence[PolicyInput], by_key: bool) -> _PpoPolicy:
    """A policy with only the recurrent states that its actions depend on."""
    finish, states = _finish_of_ppo(owner), _states_of(model)
    policy = _PpoPolicy(model, inputs, _named(model, states), by_key, unused=0, finish=finish)
    _require_computable(policy)
    if not states or len(states) % 2 or not _is_separate(model):
        return policy
    half = len(states) // 2
    alone = _PpoPolicy(model, inputs, _named(model, states[:half]), by_key, unused=half, finish=finish)
    return alone if _ignores_states_after(policy, half) else policy


def _is_separate(model: Any) -> bool:
    network = model.a2c_network
    return bool(network.is_separate_critic()) if hasattr(network, "is_separate_critic") else False


def _ignores_states_after(policy: _PpoPolicy, count: int) -> bool:
    """Whether the actions and the first `count` states do not depend on the remaining states."""
    generator = torch.Generator().manual_seed(0)
    inputs, initial = trial_inputs(policy)
    states = tuple(torch.randn(state.shape, generator=generator) for state in initial)
    changed = (*states[:count], *(state + 1 for state in states[count:]))
    with torch.no_grad(), quiet_loggers():
        (actions,), after = policy.step(inputs, states)
        (others,), after_others = policy.step(inputs, changed)
    pairs = zip((actions, *after[:count]), (others, *after_others[:count]), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def _require_computable(policy: _RlGamesPolicy) -> None:
    failure = failure_of(policy)
    if failure is not None:
        raise PolicyError(
            f"The rl_games model ({type(policy._model).__qualname__}) fails on observations from its space: "
            f"{type(failure).__name__}: {failure}"
        ) from failure


def _observation_space(owner: Any) -> Any:
    space = getattr(owner, "observation_space", None)
    if space is None:
        space = attribute(owner, "env_info", what="observation space").get("observation_space")
    return space


def _ports(space: Any) -> Iterator[PolicyInput]:
    if type(space).__name__ == "Dict":
        for name, part in space.spaces.items():
            yield _port(str(name), part)
    else:
        yield _port("obs", space)


def _port(name: str, space: Any) -> PolicyInput:
    if type(space).__name__ != "Box":
        raise PolicyError(f"The space of {name!r} must be a Box or a Dict of Boxes, got {space!r}.")
    dtype = torch.uint8 if np.dtype(space.dtype) == np.uint8 else torch.float32
    return PolicyInput(name, (BATCH, *map(int, space.shape)), dtype)


def _finish_of_ppo(owner: Any) -> Finish:
    """How the owner processes continuous actions: not at all, or clipped to ±1 and rescaled to the bounds."""
    if not has(owner, "actions_low", "actions_high"):
        return lambda actions: actions
    if not attribute(owner, "clip_actions", what="rule for clipping actions"):
        return lambda actions: actions
    low, high = own_copy(owner.actions_low).cpu(), own_copy(owner.actions_high).cpu()
    if not bool(torch.isfinite(low).all() and torch.isfinite(high).all()):
        raise PolicyError(
            f"`clip_actions` rescales actions to their bounds, but the bounds are {low.tolist()} and {high.tolist()}. "
            "Use an action space with finite bounds, or set clip_actions to False."
        )
    scale, middle = (high - low) / 2.0, (high + low) / 2.0
    return lambda actions: torch.clamp(actions, -1.0, 1.0) * scale + middle


def _finish_of_sac(owner: Any) -> Finish:
    """How the owner processes actions: rescaled to the bounds, or clipped to one range for all actions."""
    if has(owner, "action_scale", "action_bias", "action_low", "action_high"):
        names = ("action_scale", "action_bias", "action_low", "action_high")
        scale, bias, low, high = (own_copy(getattr(owner, name)).cpu() for name in names)
        return lambda actions: (actions * scale + bias).clamp(low, high)
    lowest, highest = attribute(owner, "action_range", what="action range")
    return lambda actions: actions.clamp(lowest, highest)


def _states_of(model: Any) -> list[tuple[int, int]]:
    """The number of layers and the width of each recurrent state."""
    if not model.is_rnn():
        return []
    return [(int(state.shape[0]), int(state.shape[2])) for state in model.get_default_rnn_state()]


def _named(model: Any, sizes: Sequence[tuple[int, int]]) -> list[PolicyState]:
    return named_states(sizes, is_lstm=any(isinstance(module, torch.nn.LSTM) for module in model.modules()))


def _without_scripts(model: Any) -> Any:
    """Replace the compiled normaliser of a copied model by a plain module."""
    model.normalize_value = False
    compiled = getattr(model, "running_mean_std", None)
    if isinstance(compiled, torch.jit.ScriptModule):
        model.running_mean_std = _plain_normalizer(compiled)
    return model


def _plain_normalizer(compiled: Any) -> torch.nn.Module:
    if compiled.original_name != "RunningMeanStd":
        raise PolicyError(f"The observation normaliser must be a RunningMeanStd, got a {compiled.original_name}.")
    plain_class = library("rl_games.algos_torch.running_mean_std", "rl-games").RunningMeanStd
    with contextlib.redirect_stdout(io.StringIO()):
        plain: torch.nn.Module = plain_class(
            tuple(compiled.insize), compiled.epsilon, compiled.per_channel, compiled.norm_only
        )
    plain.load_state_dict(compiled.state_dict())
    return plain.eval().requires_grad_(False)


def _require_fit(model: Any, inputs: Sequence[PolicyInput]) -> None:
    normalizer = getattr(model, "running_mean_std", None)
    mean = getattr(normalizer, "running_mean", None)
    if isinstance(mean, torch.Tensor) and not getattr(normalizer, "per_channel", False):
        require_matching_size("running_mean_std", tuple(mean.shape), inputs[0].name, inputs[0].shape)
