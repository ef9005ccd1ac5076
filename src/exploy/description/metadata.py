"""The documented metadata keys of a file."""

import json
from typing import Any

from exploy.contract import METADATA_KEY, Contract
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.validation import validated_metadata
from exploy.errors import MetadataError
from exploy.version import __version__


def build_metadata(
    env: ExportableEnvironment, contract: Contract, model_source: dict[str, Any] | None
) -> dict[str, str]:
    """The metadata of a file: the environment's own keys, one for each component or group, and the model's.

    Raises:
        MetadataError: If a value cannot be stored as JSON, or two sources use one key for different things.
    """
    if not isinstance(model_source, dict | None):
        raise MetadataError(f"model_source must be a dictionary, got {type(model_source).__name__}.")
    properties = {
        "exploy_version": json.dumps(__version__),
        "decimation": str(contract.decimation),
        "model_source": to_json("model_source", model_source or {}),
        METADATA_KEY: contract.to_json(),
    }
    for key, value in validated_metadata(env).items():
        text = _storable(key, value if isinstance(value, str) else to_json(f"metadata()[{key!r}]", value))
        if properties.get(key, text) != text:
            raise MetadataError(
                f"metadata() says {key} = {text}, but the file says {properties[key]}. Leave the key out of metadata()."
            )
        properties[key] = text
    for name, value in env.context_manager().metadata.items():
        if name in properties:
            raise MetadataError(
                f"{name!r} is both a key of the model's metadata and a component with metadata. Rename one of them."
            )
        properties[name] = to_json(f"the metadata of {name!r}", value)
    return properties


def to_json(what: str, value: Any) -> str:
    """A value as JSON has it.

    Raises:
        MetadataError: If it cannot be stored so.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise MetadataError(
            f"{what} cannot be stored as JSON: {error}. Use plain numbers, strings, lists and dictionaries "
            "(tensor.tolist() for tensors), and no NaN or Infinity."
        ) from error


def _storable(key: str, text: str) -> str:
    """A text that UTF-8, and so the file, can hold."""
    try:
        f"{key}{text}".encode()
    except UnicodeEncodeError as error:
        raise MetadataError(f"metadata()[{key!r}] cannot be stored as UTF-8: {error}.") from error
    return text
