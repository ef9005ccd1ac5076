"""Observations of an environment: one tensor, or groups of tensors in a dictionary or TensorDict."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from exploy.environment.components import describe, validated_name
from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ComponentError, InvalidEnvironmentError

OBSERVATIONS = "obs"


def observation_ports(observations: Observations, origin: str = "compute_observations()") -> dict[str, torch.Tensor]:
    """Return the tensors of observations by the names of their ports: `obs`, or `obs.GROUP` for each group.

    Groups within groups have the names of both: `obs.OUTER.INNER`.

    Args:
        observations: What the environment has returned.
        origin: The call that has returned it, for messages.

    Raises:
        InvalidEnvironmentError: If it is neither a tensor nor groups of tensors.
    """
    ports: dict[str, torch.Tensor] = {}
    _collect(observations, OBSERVATIONS, origin, ports)
    return ports


def observation_arrays(observations: Observations) -> dict[str, np.ndarray]:
    """Return numpy copies of observations by the names of their ports; see `observation_ports()`."""
    return {name: to_numpy(tensor) for name, tensor in observation_ports(observations).items()}


def validated_observations(env: ExportableEnvironment, method: str) -> Observations:
    """Call a method without arguments and return its result, which must be observations.

    Raises:
        InvalidEnvironmentError: If the result is neither a tensor nor groups of tensors.
    """
    observations: Observations = getattr(env, method)()
    observation_ports(observations, f"{method}()")
    return observations


def step_environment(env: ExportableEnvironment, actions: torch.Tensor) -> tuple[Observations, bool]:
    """Step an environment and return the next observations and whether it was reset.

    Raises:
        InvalidEnvironmentError: If `step()` returns something else.
    """
    result: Any = env.step(actions)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], torch.Tensor | Mapping):
        kinds = [type(item).__name__ for item in result] if isinstance(result, tuple) else type(result).__name__
        raise InvalidEnvironmentError(
            f"step() must return a tuple of the next observations and whether the environment was reset, got {kinds}."
        )
    observation_ports(result[0], "step()")
    return result[0], bool(torch.as_tensor(result[1]).any())


def validated_observation_names(env: ExportableEnvironment) -> dict[str, tuple[str, ...]]:
    """Return the names of the elements of observations, by port. Ports without names are left out.

    Raises:
        InvalidEnvironmentError: If they are neither a list of strings, nor such a list for each group.
    """
    names: dict[str, tuple[str, ...]] = {}
    _collect_names(env.get_observation_names(), OBSERVATIONS, names)
    return names


def describe_observations(observations: Any) -> str:
    """Return the shape and dtype of observations, of each group if there are several, for messages."""
    if isinstance(observations, torch.Tensor):
        return describe(observations)
    if isinstance(observations, Mapping):
        return ", ".join(f"{key!r}: {describe_observations(value)}" for key, value in observations.items())
    return type(observations).__name__


def _collect(observations: Any, port: str, origin: str, ports: dict[str, torch.Tensor]) -> None:
    if isinstance(observations, torch.Tensor):
        ports[port] = observations
        return
    groups = list(observations.items()) if isinstance(observations, Mapping) else []
    if not groups:
        got = "no group" if isinstance(observations, Mapping) else type(observations).__name__
        what = f"{origin}, group {port.removeprefix(f'{OBSERVATIONS}.')!r}" if port != OBSERVATIONS else origin
        raise InvalidEnvironmentError(
            f"{what} must return a torch.Tensor, or a dictionary or TensorDict with a tensor for each group of "
            f"observations; got {got}."
        )
    for key, value in groups:
        try:
            name = f"{port}.{validated_name(key, 'group of observations')}"
        except ComponentError as error:
            raise InvalidEnvironmentError(f"{origin}: {error}") from None
        if name in ports:
            raise InvalidEnvironmentError(f"{origin} returns two groups of observations with the port name {name!r}.")
        _collect(value, name, origin, ports)


def _collect_names(given: Any, port: str, names: dict[str, tuple[str, ...]]) -> None:
    if isinstance(given, Mapping):
        for key, value in given.items():
            _collect_names(value, f"{port}.{key}", names)
    elif isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        names[port] = tuple(given)
    else:
        raise InvalidEnvironmentError(
            f"get_observation_names() must return a list of strings, got {given!r}. If there are groups of "
            "observations, return a dictionary with such a list for each of them."
        )
