"""CleanRL agents, including what gymnasium's environment wrappers do to observations and actions."""

import contextlib
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from exploy.driver.policy_export import ExportOptions
from exploy.driver.policy_export import export_policy as export_network
from exploy.errors import CheckpointError, PolicyError
from exploy.policy.copies import own_copy
from exploy.policy.normalization import Normalization, require_matching_size
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors
from exploy.policy.recurrent import rnn_states
from exploy.trainers.common.attributes import has
from exploy.trainers.common.checkpoints import load_into, load_values
from exploy.trainers.common.deterministic_sampling import DeterministicSampling
from exploy.trainers.common.trial import failure_of, trial_inputs

OBS = "obs"
_MISSING = "The agent does not describe the wrappers of its environment. Missing: {}."
_CLIP_ACTIONS = "clip_actions= (the Box that the ClipAction wrapper clips to; None if it was not used)"


class Unsaid(Enum):
    """Default of an argument that was not given. None means that the wrapper is not used."""

    UNSAID = "not said"


UNSAID = Unsaid.UNSAID


def export_policy(
    source: Any,
    path: str | Path,
    *,
    agent: torch.nn.Module | Callable[..., torch.nn.Module] | None = None,
    envs: Any = None,
    observation_space: Any = None,
    normalization: Any = UNSAID,
    clip_observations: float | Unsaid | None = UNSAID,
    clip_actions: Any = UNSAID,
    **options: Unpack[ExportOptions],
) -> Path:
    """Export a CleanRL agent without its environment.

    The scripts implement normalisation and clipping in environment wrappers. Neither the agent nor the checkpoint
    contains them, so they must be passed here.

    Args:
        source: The agent (or actor, or Q-network), or the path of a checkpoint with its weights.
        path: The file to write.
        agent: For a checkpoint: the module to load the weights into, or its class, which is called with `envs`.
        envs: The environments to create the agent with. The spaces are also read from them.
        observation_space: The space or the shape of one observation. Default: that of `envs`.
        normalization: The NormalizeObservation wrapper, an object with `mean`, `var` and `epsilon`, or the path of an
            .npz file with these arrays. None if observations are not normalised.
        clip_observations: The bound that normalised observations are clipped to. None for no clipping.
        clip_actions: The Box that the ClipAction wrapper clips actions to, or True for the action space of `envs`. None
            if there is no such wrapper.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Raises:
        ExployError: If the export fails. The subclass gives the kind of failure.
    """
    said: dict[str, Any] = {
        "envs": envs,
        "observation_space": observation_space,
        "normalization": normalization,
        "clip_observations": clip_observations,
        "clip_actions": clip_actions,
    }
    if isinstance(source, str | Path):
        return export_network(actor_from_checkpoint(source, agent=agent, **said), path, **options)
    if agent is not None:
        raise PolicyError("agent= is only for checkpoints. Pass the agent itself as the source.")
    return export_network(actor_from_agent(source, **said), path, **options)


def actor_from_checkpoint(
    path: str | Path,
    *,
    agent: torch.nn.Module | Callable[..., torch.nn.Module] | None = None,
    envs: Any = None,
    **said: Any,
) -> Policy:
    """The actor with the weights of a checkpoint; see `export_policy()` for the arguments.

    Raises:
        CheckpointError: If the file is not a checkpoint of the agent, or the agent is not given.
        PolicyError: If an argument is missing or does not match the agent.
    """
    loaded = load_values(path)
    if agent is None:
        raise CheckpointError(
            f"{path} contains weights but not the network. Missing: agent= (the module, or its class)."
        )
    state = (
        loaded[0] if isinstance(loaded, tuple | list) and loaded else loaded
    )  # the actor is saved before the critics
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise CheckpointError(f"{path} is not a checkpoint of CleanRL: looked for a state_dict, found {_kind(loaded)}.")
    module = own_copy(agent) if isinstance(agent, torch.nn.Module) else _made(agent, envs)
    load_into(module, state, path, f"the {type(module).__name__}")
    return actor_from_agent(module, envs=envs, **said)


def actor_from_agent(
    agent: torch.nn.Module,
    *,
    envs: Any = None,
    observation_space: Any = None,
    normalization: Any = UNSAID,
    clip_observations: float | Unsaid | None = UNSAID,
    clip_actions: Any = UNSAID,
) -> Policy:
    """A copy of the agent as a policy; see `export_policy()` for the arguments.

    Raises:
        PolicyError: If it is not a CleanRL agent, or an argument is missing or does not match the agent.
    """
    if not isinstance(agent, torch.nn.Module):
        raise PolicyError(f"A CleanRL agent must be a torch.nn.Module, got {type(agent).__name__}.")
    act = _way_to_act(agent)
    space = observation_space if observation_space is not None else getattr(envs, "single_observation_space", None)
    missing = [] if space is not None else ["observation_space= (or envs=)"]
    if normalization is UNSAID:
        missing.append("normalization= (the NormalizeObservation wrapper; None if it was not used)")
    elif normalization is not None and clip_observations is UNSAID:
        missing.append("clip_observations= (the bound, 10 in CleanRL's scripts; None if not clipped)")
    if clip_actions is UNSAID and has(agent, "actor_mean"):
        missing.append(_CLIP_ACTIONS)
    elif clip_actions is True and envs is None:
        missing.append("envs= (actions are clipped to its action space)")
    if act == "forward" and not has(agent, "action_scale") and envs is None:
        missing.append("envs= (its action space decides whether the action with the highest value is chosen)")
    if missing:
        raise PolicyError(_MISSING.format("; ".join(missing)))
    port = _port(space)
    bounds = envs.single_action_space if clip_actions is True else clip_actions
    bounds = None if bounds is UNSAID or bounds is False else bounds
    normalize = _normalization(normalization, _validated_clip(clip_observations), port)
    policy = CleanRlPolicy(own_copy(agent), act, port, normalize, bounds, chooses=_chooses(agent, act, envs))
    if clip_actions is UNSAID and act == "get_action_and_value" and failure_of(policy) is None:
        inputs, states = trial_inputs(policy)
        if policy.step(inputs, states)[0][0].is_floating_point():
            raise PolicyError(_MISSING.format(_CLIP_ACTIONS))
    return policy


class CleanRlPolicy(Policy):
    """Normalisation, agent and action clipping."""

    def __init__(
        self,
        agent: torch.nn.Module,
        act: str,
        port: PolicyInput,
        normalization: torch.nn.Module,
        action_space: Any,
        chooses: bool,
    ):
        recurrent = agent.get_submodule("lstm") if has(agent, "lstm", "get_states") else None
        super().__init__([port], rnn_states(recurrent) if recurrent is not None else (), libraries=("gymnasium",))
        self.agent = agent
        self.normalization = normalization
        self._act = act
        self._chooses = chooses
        self._is_bounded = action_space is not None
        if self._is_bounded:
            self.register_buffer("low", torch.as_tensor(_bound(action_space, "low")))
            self.register_buffer("high", torch.as_tensor(_bound(action_space, "high")))

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute the agent's deterministic actions."""
        observation = self.normalization(inputs[0])
        with DeterministicSampling():
            if states:
                done = observation.new_zeros(observation.shape[0])
                actions, *_, states = getattr(self.agent, self._act)(observation, states, done)
            else:
                actions = getattr(self.agent, self._act)(observation)
        if self._chooses:
            actions = actions.argmax(dim=1)
        actions = actions[0] if isinstance(actions, tuple) else actions
        if self._is_bounded:
            actions = torch.clamp(actions, self.get_buffer("low"), self.get_buffer("high"))
        return (actions,), tuple(states)


def _way_to_act(agent: torch.nn.Module) -> str:
    """The name of the method that computes the action, which depends on the algorithm."""
    for name in ("get_action_and_value", "get_action"):
        if callable(getattr(agent, name, None)):
            return name
    if has(agent, "action_scale", "action_bias") or has(agent, "network"):
        return "forward"
    raise PolicyError(
        f"{type(agent).__name__} is not a CleanRL agent: looked for `get_action_and_value` (PPO), `get_action` (SAC, "
        "C51), `action_scale` and `action_bias` (TD3, DDPG), or `network` (DQN)."
    )


def _chooses(agent: torch.nn.Module, act: str, envs: Any) -> bool:
    """Whether the agent returns Q-values, so that the action with the highest value is chosen."""
    is_network = act == "forward" and not has(agent, "action_scale")
    return is_network and hasattr(envs.single_action_space, "n")


def _validated_clip(clip: Any) -> float | None:
    if clip is None or clip is UNSAID or clip is False:
        return None
    if isinstance(clip, bool) or not isinstance(clip, int | float) or not 0 < clip < float("inf"):
        raise PolicyError(f"clip_observations must be a number above zero, or None for no clipping, got {clip!r}.")
    return float(clip)


def _made(agent: Callable[..., torch.nn.Module], envs: Any) -> torch.nn.Module:
    """Create the agent from its class, as the scripts do."""
    try:
        with torch.random.fork_rng(devices=[]):
            module = agent(envs) if envs is not None else agent()
    except Exception as error:
        name = getattr(agent, "__name__", repr(agent))
        raise CheckpointError(
            f"{name}({'envs' if envs is not None else ''}) raised {type(error).__name__}: {error}. Give envs= "
            "that it accepts, or pass an instance of the module as agent=."
        ) from error
    if not isinstance(module, torch.nn.Module):
        raise CheckpointError(f"agent= must return a torch.nn.Module, got {type(module).__name__}.")
    return own_copy(module)


def _port(space: Any) -> PolicyInput:
    shape = getattr(space, "shape", space)
    if not isinstance(shape, tuple | list) or not all(isinstance(size, int | np.integer) for size in shape):
        raise PolicyError(f"observation_space must be a Box or a shape such as (17,), got {space!r}.")
    dtype = torch.from_numpy(np.zeros(0, getattr(space, "dtype", np.float32))).dtype
    return PolicyInput(OBS, (BATCH, *(int(size) for size in shape)), dtype)


def _normalization(source: Any, clip: float | None, port: PolicyInput) -> torch.nn.Module:
    if source is None or source is UNSAID:
        return _AsFloat(clip)
    mean, variance, epsilon = _statistics(source)
    for statistics in (mean, variance):
        require_matching_size("The normaliser", statistics.shape, port.name, port.shape)
    if not (variance + epsilon > 0).all():
        raise PolicyError(f"The variances of the normaliser must be above zero, got {variance.tolist()}.")
    return Normalization(torch.tensor(mean), torch.tensor(variance + epsilon).sqrt(), clip)


class _AsFloat(torch.nn.Module):
    """Conversion to float, as torch.Tensor(observation) does in the scripts, and an optional clip."""

    def __init__(self, clip: float | None):
        super().__init__()
        self.clip = clip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.float() if self.clip is None else x.float().clamp(-self.clip, self.clip)


def _statistics(source: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, variance and epsilon from a wrapper, running statistics, or an .npz file."""
    if isinstance(source, str | Path):
        if not Path(source).is_file():
            raise CheckpointError(f"File with observation statistics not found: {source}.")
        try:
            with np.load(source) as arrays:
                found: dict[str, Any] = dict(arrays)
        except Exception as error:
            raise CheckpointError(f"{source} is not an .npz file: {type(error).__name__}: {error}") from error
    else:
        source = _wrapper_of(source)
        running = getattr(source, "obs_rms", source)
        found = {name: getattr(running, name, None) for name in ("mean", "var")}
        found["epsilon"] = getattr(source, "epsilon", getattr(running, "epsilon", None))
    missing = [name for name in ("mean", "var", "epsilon") if found.get(name) is None]
    if missing:
        raise PolicyError(f"The normaliser has no {', '.join(missing)}: looked for `mean`, `var` and `epsilon`.")
    return np.asarray(found["mean"], np.float64), np.asarray(found["var"], np.float64), float(found["epsilon"])


def _wrapper_of(source: Any) -> Any:
    """The first wrapper with observation statistics, or the given object if there is no such wrapper."""
    wrapper = source
    while wrapper is not None and not hasattr(wrapper, "obs_rms"):
        wrapper = getattr(wrapper, "env", None)
    return source if wrapper is None else wrapper


def _bound(space: Any, name: str) -> np.ndarray:
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        return np.asarray(getattr(space, name), np.float32)
    raise PolicyError(f"clip_actions must be a Box with bounds, got {space!r}.")


def _kind(loaded: Any) -> str:
    return f"the keys {', '.join(map(str, list(loaded)[:6]))}" if isinstance(loaded, dict) else type(loaded).__name__
