"""From an agent, runner, model or checkpoint of skrl to an actor and to a file."""

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
    """The policy of the agent of a skrl Runner.

    Raises:
        PolicyError: If it is no runner, or for the reasons of `actor_from_agent()`.
    """
    return actor_from_agent(attribute(runner, "agent", what="agent of skrl"))


def actor_from_agent(agent: Any) -> Policy:
    """The policy of a skrl agent with its preprocessors: of its `policy`, or the best action of its `q_network`.

    Observations come in as `obs`, or part by part under the keys of their space, and `states` where the policy reads
    them. An agent that adds exploration noise clips the actions after it; the noise is left out, the clipping is kept.

    Raises:
        PolicyError: If it is no agent of skrl's PyTorch part, has several agents inside, or its model is not supported.
    """
    if has(agent, "possible_agents", "policies"):
        names = ", ".join(map(str, agent.possible_agents))
        raise PolicyError(
            f"{type(agent).__name__} has a policy for each of {names}; a file holds one. Export them one by one: "
            "actor_from_model(agent.policies[name], preprocessor=agent._observation_preprocessor[name])."
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
    """The policy of a skrl model alone.

    Args:
        model: The model, on any device.
        preprocessor: The agent's preprocessor of observations, if it has one.
        state_preprocessor: The agent's preprocessor of states, if it has one and the model reads states.
        observation_space: The space of observations, where the model does not hold it.
        role: What the agent uses the model for: "policy", or "q_network" for the action of the highest value.

    Raises:
        PolicyError: If it is no model of skrl's PyTorch part, is not supported, or does not fit its preprocessor.
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
    """The policy of a checkpoint that `agent.save()` or a trainer wrote; it holds weights and no architecture.

    Args:
        path: The checkpoint; only tensors and plain values are read.
        config: The configuration of skrl's Runner (a dictionary, or the path of its YAML file), from which skrl builds
            the agent as it did for the training; skrl evaluates expressions in it, so use only your own. Needs
            `observation_space` and `action_space`.
        policy: Instead of it, the model, built by the code that built it for the training. The weights are loaded
            into a copy.
        preprocessor: With `policy`: a preprocessor of observations, built as for the training.
        state_preprocessor: With `policy`: a preprocessor of states, built as for the training.
        observation_space: With `config`: the space of observations that the training had.
        state_space: With `config`: the space of states, if the training had one.
        action_space: With `config`: the space of actions that the training had.

    Raises:
        CheckpointError: If it is no checkpoint of skrl, does not fit, or something that it does not hold is missing.
        PolicyError: For the reasons of `actor_from_agent()`.
    """
    loaded = load_tensors(path)
    role = next((name for name in (POLICY, Q_NETWORK) if name in loaded), POLICY)
    entry(loaded, path, POLICY, Q_NETWORK, library=LIBRARY)
    if policy is not None and config is None:
        return from_model_and_weights(loaded, path, role, policy, preprocessor, state_preprocessor)
    if config is None or policy is not None:
        raise CheckpointError(
            f"{path} holds weights and no architecture. Give policy= (the model, built as for the training), or "
            "config= (the configuration of skrl's Runner) with observation_space= and action_space=; not both."
        )
    given = {"preprocessor=": preprocessor, "state_preprocessor=": state_preprocessor}
    unused = [name for name, value in given.items() if value is not None]
    if unused:
        raise CheckpointError(f"{' and '.join(unused)} belongs to policy=; with config=, skrl builds it from there.")
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
    """Export a policy of skrl as one ONNX file.

    Args:
        source: An agent, a runner, a model, or the path of a checkpoint.
        path: The file to write.
        config: For a checkpoint, see `actor_from_checkpoint()`.
        policy: For a checkpoint, see there.
        preprocessor: For a checkpoint with `policy`, or a model.
        state_preprocessor: For a checkpoint with `policy`, or a model.
        observation_space: For a checkpoint with `config`, or a model that does not hold it.
        state_space: For a checkpoint with `config`.
        action_space: For a checkpoint with `config`.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Returns:
        The path of the file.

    Raises:
        PolicyError: If the source cannot be exported, or options are given that it does not take.
        CheckpointError: For the reasons of `actor_from_checkpoint()`.
        ExployError: For the reasons of `exploy.driver.policy_export.export_policy()`.
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
            raise CheckpointError(f"{', '.join(unused)} belongs to config=; with policy=, the model holds its spaces.")
        return actor_from_checkpoint(source, **given)
    is_model = isinstance(source, torch.nn.Module)
    takes = {"preprocessor", "state_preprocessor", "observation_space"} if is_model else set()
    unknown = sorted(set(given) - takes)
    if unknown:
        raise PolicyError(f"A {type(source).__name__} holds its own {', '.join(unknown)}; leave it out.")
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
