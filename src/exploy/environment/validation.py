"""Checks the values that an environment returns."""

import operator
from typing import Any

import torch

from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import InvalidEnvironmentError


def validated_decimation(env: ExportableEnvironment) -> int:
    """Return the decimation as an integer of 1 or more.

    Raises:
        InvalidEnvironmentError: If it is not an integer of 1 or more.
    """
    value: Any = env.decimation
    try:
        decimation = operator.index(value)
    except TypeError:
        decimation = 0
    if isinstance(value, bool) or decimation < 1:
        raise InvalidEnvironmentError(
            f"decimation must be an integer of 1 or more (simulation steps per policy step), got {value!r}."
        )
    return decimation


def validated_tensor(env: ExportableEnvironment, method: str) -> torch.Tensor:
    """Call a method without arguments and return its result, which must be a tensor.

    Raises:
        InvalidEnvironmentError: If the result is not a tensor.
    """
    value: Any = getattr(env, method)()
    if not isinstance(value, torch.Tensor):
        raise InvalidEnvironmentError(f"{method}() must return a torch.Tensor, got {type(value).__name__}.")
    return value


def step_environment(env: ExportableEnvironment, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Step an environment and return the next observations and whether it was reset.

    Raises:
        InvalidEnvironmentError: If `step()` returns something else.
    """
    result: Any = env.step(actions)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
        kinds = [type(item).__name__ for item in result] if isinstance(result, tuple) else type(result).__name__
        raise InvalidEnvironmentError(
            f"step() must return a tuple of the next observations and whether the environment was reset, got {kinds}."
        )
    return result[0], bool(torch.as_tensor(result[1]).any())


def validated_observation_names(env: ExportableEnvironment) -> tuple[str, ...]:
    """Return the names of the observation's elements.

    Raises:
        InvalidEnvironmentError: If they are not a list of strings.
    """
    names: Any = env.get_observation_names()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidEnvironmentError(f"get_observation_names() must return a list of strings, got {names!r}.")
    return tuple(names)


def validated_metadata(env: ExportableEnvironment) -> dict[str, Any]:
    """Return the metadata of the environment.

    Raises:
        InvalidEnvironmentError: If it is not a dictionary with strings as keys.
    """
    metadata: Any = env.metadata()
    if not isinstance(metadata, dict) or not all(isinstance(key, str) for key in metadata):
        raise InvalidEnvironmentError(f"metadata() must return a dictionary with strings as keys, got {metadata!r}.")
    return metadata
