"""Checks that what an environment returns is what its interface promises."""

import operator
from typing import Any

import torch

from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import InvalidEnvironmentError


def validated_decimation(env: ExportableEnvironment) -> int:
    """The decimation as a whole number of 1 or more.

    Raises:
        InvalidEnvironmentError: If it is none.
    """
    value: Any = env.decimation
    try:
        decimation = operator.index(value)
    except TypeError:
        decimation = 0
    if isinstance(value, bool) or decimation < 1:
        raise InvalidEnvironmentError(
            f"decimation must be a whole number of 1 or more (simulation steps in a policy step), got {value!r}."
        )
    return decimation


def validated_tensor(env: ExportableEnvironment, method: str) -> torch.Tensor:
    """What a method without arguments returns, which must be a tensor.

    Raises:
        InvalidEnvironmentError: If it is none.
    """
    value: Any = getattr(env, method)()
    if not isinstance(value, torch.Tensor):
        raise InvalidEnvironmentError(f"{method}() must return a torch.Tensor, got {type(value).__name__}.")
    return value


def validated_observation_names(env: ExportableEnvironment) -> tuple[str, ...]:
    """The names of the observation's elements.

    Raises:
        InvalidEnvironmentError: If they are no list of strings.
    """
    names: Any = env.get_observation_names()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidEnvironmentError(f"get_observation_names() must return a list of strings, got {names!r}.")
    return tuple(names)


def validated_metadata(env: ExportableEnvironment) -> dict[str, Any]:
    """The metadata of the environment.

    Raises:
        InvalidEnvironmentError: If it is no dictionary with strings as keys.
    """
    metadata: Any = env.metadata()
    if not isinstance(metadata, dict) or not all(isinstance(key, str) for key in metadata):
        raise InvalidEnvironmentError(f"metadata() must return a dictionary with strings as keys, got {metadata!r}.")
    return metadata
