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


def validated_metadata(env: ExportableEnvironment) -> dict[str, Any]:
    """Return the metadata of the environment.

    Raises:
        InvalidEnvironmentError: If it is not a dictionary with strings as keys.
    """
    metadata: Any = env.metadata()
    if not isinstance(metadata, dict) or not all(isinstance(key, str) for key in metadata):
        raise InvalidEnvironmentError(f"metadata() must return a dictionary with strings as keys, got {metadata!r}.")
    return metadata
