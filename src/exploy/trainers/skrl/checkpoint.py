"""Builds skrl policies from checkpoints, which contain weights but no architecture."""

import contextlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from exploy.errors import CheckpointError
from exploy.policy.copies import own_copy
from exploy.policy.policy import Policy
from exploy.trainers.common.attributes import attribute
from exploy.trainers.common.checkpoints import load_into
from exploy.trainers.common.configuration import plain_copy
from exploy.trainers.common.libraries import library
from exploy.trainers.skrl.policy import Parts, policy_of, require_supported


def from_model_and_weights(
    loaded: dict[str, Any], path: str | Path, role: str, policy: Any, preprocessor: Any, state_preprocessor: Any
) -> Policy:
    """A policy from copies of the given model and preprocessors, with the weights of a checkpoint.

    Raises:
        CheckpointError: If the weights do not match, or a preprocessor is missing or unexpected.
        PolicyError: If the model is not supported.
    """
    require_supported(policy, role)
    parts = Parts(own_copy(policy), role, getattr(policy, "observation_space", None))
    load_into(parts.model, loaded[role], path, type(policy).__name__)
    stated = getattr(policy, "state_space", None) is not None
    observed_key = "observation_preprocessor"
    if not stated and observed_key not in loaded:
        observed_key = "state_preprocessor"
    parts.preprocessor = _with_weights(loaded, path, observed_key, preprocessor, "preprocessor")
    if stated:
        key = "state_preprocessor"
        parts.state_preprocessor = _with_weights(loaded, path, key, state_preprocessor, key)
    return policy_of(parts)


def _with_weights(loaded: dict[str, Any], path: str | Path, key: str, given: Any, option: str) -> Any:
    """A copy of a preprocessor with the weights of a checkpoint, or None if neither is present."""
    if key not in loaded and given is None:
        return None
    if key not in loaded:
        raise CheckpointError(f"{path} contains no {key!r}, but {option}= is given. Leave it out.")
    if given is None:
        raise CheckpointError(
            f"{path} contains the statistics of a {key!r}, but not its epsilon and clip threshold. Give {option}= (for "
            "example a RunningStandardScaler), created as for the training."
        )
    if not isinstance(given, torch.nn.Module):
        raise CheckpointError(f"{option}= must be a torch.nn.Module with the parameters of {key!r}, got {given!r}.")
    copied = own_copy(given)
    load_into(copied, loaded[key], path, f"the {type(given).__name__} of {option}=")
    return copied


def build_agent(config: dict[str, Any], role: str, observation_space: Any, state_space: Any, action_space: Any) -> Any:
    """The agent that skrl's Runner builds for an environment with these spaces."""
    missing = [*_missing_in(config, role)]
    missing += ["observation_space="] * (observation_space is None) + ["action_space="] * (action_space is None)
    if missing:
        raise CheckpointError(f"The policy cannot be built. Missing: {', '.join(missing)}.")
    runner_class = library("skrl.utils.runner.torch", "skrl").Runner
    environment = SimpleNamespace(
        observation_space=observation_space,
        state_space=state_space,
        action_space=action_space,
        device=torch.device("cpu"),
        num_envs=1,
    )
    config["memory"] = {"class": "RandomMemory", "memory_size": 1}
    runner = runner_class.__new__(runner_class)
    runner._verbose = False
    try:
        with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()):
            if hasattr(runner, "_check_cfg_compatibility"):
                config = runner._check_cfg_compatibility(config)
            models = runner._generate_models(environment, plain_copy(config))
            return runner._generate_agent(environment, plain_copy(config), models)
    except Exception as error:
        raise CheckpointError(
            f"skrl cannot build the agent from this configuration: {type(error).__name__}: {error}"
        ) from error


def _missing_in(config: Mapping[str, Any], role: str) -> Iterator[str]:
    agent, models = config.get("agent"), config.get("models")
    if not isinstance(agent, Mapping) or "class" not in agent:
        yield "agent.class in config"
    if not isinstance(models, Mapping):
        yield "models in config"
        return
    if "separate" not in models:
        yield "models.separate in config"
    model = models.get(role)
    if not isinstance(model, Mapping):
        yield f"models.{role} in config"
        return
    yield from (f"models.{role}.{key} in config" for key in ("class", "network", "output") if key not in model)


def load_agent(agent: Any, loaded: dict[str, Any], path: str | Path, role: str) -> None:
    """Load the weights of a checkpoint into the policy and the preprocessors of an agent.

    Raises:
        CheckpointError: If the weights do not match, or only one of agent and checkpoint has a preprocessor.
    """
    modules = attribute(agent, "checkpoint_modules", what="checkpoint modules")
    for name in (role, "observation_preprocessor", "state_preprocessor"):
        module = modules.get(name)
        if (module is None) != (name not in loaded):
            there, lacks = (
                ("the checkpoint", "configuration") if module is None else ("the configuration", "checkpoint")
            )
            raise CheckpointError(
                f"{path}: {there} has a {name!r}, but the {lacks} does not. Give the configuration of this checkpoint."
            )
        if module is not None:
            load_into(module, loaded[name], path, f"the {name} of the configuration")
