"""Converts a skrl agent, runner, model or checkpoint to an actor or a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import torch

from exploy.driver import policy_export
from exploy.errors import CheckpointError, PolicyError
from exploy.policy.policy import Policy
from exploy.trainers.common.attributes import attribute, has
from exploy.trainers.common.checkpoints import entry, load_tensors
from exploy.trainers.common.configuration import read_configuration
from exploy.trainers.skrl.checkpoint import build_agent, from_model_and_weights, load_agent
from exploy.trainers.skrl.policy import (
    LIBRARY,
    POLICY,
    Q_NETWORK,
    Bounds,
    Parts,
    knows_states,
    policy_of,
    require_supported,
)


def actor_from_runner(runner: Any) -> Policy:
    """The policy of the agent in a skrl Runner.

    Raises:
        PolicyError: If it is not a runner, or as in `actor_from_agent()`.
    """
    return actor_from_agent(attribute(runner, "agent", what="agent of skrl"))


def actor_from_agent(agent: Any) -> Policy:
    """The policy of a skrl agent with its preprocessors: its `policy`, or the best action of its `q_network`.

    The inputs are `obs`, or one input per key of the observation space, and `states` if the policy reads them. An agent
    with exploration noise clips its noisy actions. The noise is not exported, the clipping is.

    Raises:
        PolicyError: If it is not a PyTorch agent of skrl, is a multi-agent, or its model is not supported.
    """
    if has(agent, "possible_agents", "policies"):
        names = ", ".join(map(str, agent.possible_agents))
        raise PolicyError(
            f"{type(agent).__name__} has a policy for each of {names}, but a file contains one policy. Export them "
            "one by one: actor_from_model(agent.policies[name], preprocessor=agent._observation_preprocessor[name])."
        )
    role = Q_NETWORK if has(agent, Q_NETWORK) else POLICY
    model = attribute(agent, POLICY, Q_NETWORK, what="policy of skrl")
    require_supported(model, role)
    observed, stated = _preprocessors_of(agent, model)
    space = getattr(model, "observation_space", None)
    return policy_of(
        Parts(
            model=model,
            role=role,
            observation_space=getattr(agent, "observation_space", None) if space is None else space,
            preprocessor=observed,
            state_preprocessor=stated,
            bounds=_bounds_after_noise(agent),
        )
    )


def actor_from_model(
    model: Any,
    *,
    preprocessor: Any = None,
    state_preprocessor: Any = None,
    observation_space: Any = None,
    role: str = POLICY,
) -> Policy:
    """The policy of a skrl model without its agent.

    Args:
        model: The model, on any device.
        preprocessor: The agent's preprocessor of observations, if it has one.
        state_preprocessor: The agent's preprocessor of states, if it has one and the model reads states.
        observation_space: The observation space, if the model does not have it.
        role: What the agent uses the model for: "policy", or "q_network" for the action with the highest value.

    Raises:
        PolicyError: If it is not a PyTorch model of skrl, is not supported, or does not match its preprocessor.
    """
    held = getattr(model, "observation_space", None)
    space = held if observation_space is None else observation_space
    return policy_of(Parts(model, role, space, preprocessor, state_preprocessor))


def actor_from_checkpoint(
    path: str | Path,
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    policy: Any = None,
    preprocessor: Any = None,
    state_preprocessor: Any = None,
    observation_space: Any = None,
    state_space: Any = None,
    action_space: Any = None,
) -> Policy:
    """The policy of a checkpoint that `agent.save()` or a trainer wrote. It contains weights but no architecture.

    Args:
        path: The checkpoint; only tensors and plain values are read.
        config: The configuration of skrl's Runner (a dictionary, or the path of its YAML file), from which skrl builds
            the agent as for the training. skrl evaluates expressions in it, so only use files that you trust. Requires
            `observation_space` and `action_space`.
        policy: Instead of `config`: the model, created as for the training. The weights are loaded into a copy.
        preprocessor: With `policy`: a preprocessor of observations, created as for the training.
        state_preprocessor: With `policy`: a preprocessor of states, created as for the training.
        observation_space: With `config`: the observation space of the training.
        state_space: With `config`: the state space of the training, if any.
        action_space: With `config`: the action space of the training.

    Raises:
        CheckpointError: If the file is not a checkpoint of skrl, does not match, or an argument is missing.
        PolicyError: As in `actor_from_agent()`.
    """
    loaded = load_tensors(path)
    role = next((name for name in (POLICY, Q_NETWORK) if name in loaded), POLICY)
    entry(loaded, path, POLICY, Q_NETWORK, library=LIBRARY)
    if policy is not None and config is None:
        return from_model_and_weights(loaded, path, role, policy, preprocessor, state_preprocessor)
    if config is None or policy is not None:
        raise CheckpointError(
            f"{path} contains weights but no architecture. Give policy= (the model, created as for the training) or "
            "config= (the configuration of skrl's Runner) with observation_space= and action_space=, but not both."
        )
    given = {"preprocessor=": preprocessor, "state_preprocessor=": state_preprocessor}
    unused = [name for name, value in given.items() if value is not None]
    if unused:
        raise CheckpointError(
            f"{' and '.join(unused)} belongs to policy=. With config=, skrl builds it from the configuration."
        )
    agent = build_agent(read_configuration(config, "skrl"), role, observation_space, state_space, action_space)
    load_agent(agent, loaded, path, role)
    return actor_from_agent(agent)


def export_policy(
    source: Any,
    path: str | Path,
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    policy: Any = None,
    preprocessor: Any = None,
    state_preprocessor: Any = None,
    observation_space: Any = None,
    state_space: Any = None,
    action_space: Any = None,
    **options: Unpack[policy_export.ExportOptions],
) -> Path:
    """Export a skrl policy to one ONNX file.

    Args:
        source: An agent, a runner, a model, or the path of a checkpoint.
        path: The file to write.
        config: For a checkpoint, see `actor_from_checkpoint()`.
        policy: For a checkpoint, see `actor_from_checkpoint()`.
        preprocessor: For a checkpoint with `policy`, or a model.
        state_preprocessor: For a checkpoint with `policy`, or a model.
        observation_space: For a checkpoint with `config`, or a model that does not have it.
        state_space: For a checkpoint with `config`.
        action_space: For a checkpoint with `config`.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Returns:
        The path of the file.

    Raises:
        PolicyError: If the source cannot be exported, or arguments are given that do not apply to it.
        CheckpointError: As in `actor_from_checkpoint()`.
        ExployError: As in `exploy.driver.policy_export.export_policy()`.
    """
    extras = {
        "config": config,
        "policy": policy,
        "preprocessor": preprocessor,
        "state_preprocessor": state_preprocessor,
        "observation_space": observation_space,
        "state_space": state_space,
        "action_space": action_space,
    }
    given = {name: value for name, value in extras.items() if value is not None}
    return policy_export.export_policy(_actor(source, given), path, **options)


def _actor(source: Any, given: dict[str, Any]) -> Policy:
    if isinstance(source, str | Path):
        unused = sorted({"observation_space", "state_space", "action_space"} & set(given)) if "policy" in given else []
        if unused:
            raise CheckpointError(
                f"{', '.join(unused)} belongs to config=. With policy=, the model has its own spaces. Leave it out."
            )
        return actor_from_checkpoint(source, **given)
    is_model = isinstance(source, torch.nn.Module)
    takes = {"preprocessor", "state_preprocessor", "observation_space"} if is_model else set()
    unknown = sorted(set(given) - takes)
    if unknown:
        raise PolicyError(f"A {type(source).__name__} has its own {', '.join(unknown)}. Leave it out.")
    if is_model:
        return actor_from_model(source, **given)
    return actor_from_runner(source) if has(source, "agent", "trainer") else actor_from_agent(source)


def _preprocessors_of(agent: Any, model: Any) -> tuple[Any, Any]:
    """The preprocessors of observations and of states."""
    if not knows_states(model):
        return attribute(agent, "_state_preprocessor", what="preprocessor of observations"), None
    observed = attribute(agent, "_observation_preprocessor", what="preprocessor of observations")
    return observed, getattr(agent, "_state_preprocessor", None)


def _bounds_after_noise(agent: Any) -> Bounds:
    if getattr(agent, "_exploration_noise", None) is None:
        return None, None
    low = getattr(agent, "_min_actions", getattr(agent, "clip_actions_min", None))
    high = getattr(agent, "_max_actions", getattr(agent, "clip_actions_max", None))
    return low, high
