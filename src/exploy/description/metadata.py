"""The documented metadata keys of a file."""

import json
import math
from typing import Any

from exploy.contract import METADATA_KEY, Contract
from exploy.description.port_semantics import as_plain
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.validation import validated_metadata
from exploy.errors import MetadataError
from exploy.version import __version__


def build_metadata(
    env: ExportableEnvironment, contract: Contract, model_source: dict[str, Any] | None
) -> dict[str, str]:
    """The metadata of a file: keys of the environment, of each component and group, and of the model.

    `update_rate`, which robot controllers read, follows from `sim_dt` unless the environment gives it.

    Raises:
        MetadataError: If a value cannot be stored as JSON, or two sources use the same key for different values.
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
                f"metadata() has {key} = {text}, but the file has {properties[key]}. Remove the key from metadata()."
            )
        properties[key] = text
    for name, value in env.context_manager().metadata.items():
        if name in properties:
            raise MetadataError(
                f"{name!r} is both a key of the model's metadata and a component with metadata. Rename one of them."
            )
        properties[name] = to_json(f"the metadata of {name!r}", value)
    if contract.hz is not None and math.isfinite(contract.hz):
        properties.setdefault("update_rate", str(contract.hz))
    return properties


def to_json(what: str, value: Any) -> str:
    """Convert a value to JSON.

    Raises:
        MetadataError: If it cannot be stored as JSON.
    """
    try:
        return json.dumps(value, allow_nan=False, default=_plain_or_refused)
    except (TypeError, ValueError) as error:
        raise MetadataError(
            f"{what} cannot be stored as JSON: {error}. Use plain numbers, strings, lists and dictionaries "
            "(tensor.tolist() for tensors), and no NaN or Infinity."
        ) from error


def _plain_or_refused(value: Any) -> Any:
    """Convert arrays and numbers of numpy; raise TypeError for anything else, and for masked arrays."""
    plain = as_plain(value)
    if plain is value:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return plain


def _storable(key: str, text: str) -> str:
    """Return the text if it can be stored as UTF-8."""
    try:
        f"{key}{text}".encode()
    except UnicodeEncodeError as error:
        raise MetadataError(f"metadata()[{key!r}] cannot be stored as UTF-8: {error}.") from error
    return text
