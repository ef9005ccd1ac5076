"""Reads training configurations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exploy.errors import CheckpointError
from exploy.trainers.common.libraries import library

Configuration = Mapping[str, Any] | str | Path


def read_configuration(config: Configuration, extra: str) -> dict[str, Any]:
    """A copy of a configuration as nested dictionaries and lists. Only plain values are read from YAML files.

    Args:
        config: The configuration, or the path of its YAML file.
        extra: The extra of exploy that installs the YAML reader.

    Raises:
        CheckpointError: If the file is missing or does not contain a dictionary of plain values.
        PolicyError: If the YAML reader is not installed.
    """
    if isinstance(config, Mapping):
        return dict(plain_copy(config))
    if not isinstance(config, str | Path):
        raise CheckpointError(
            f"config must be a dictionary or the path of a YAML file, got {type(config).__name__}. If it is a "
            "configuration class, pass the result of its to_dict()."
        )
    if not Path(config).is_file():
        raise CheckpointError(f"Configuration not found: {config}.")
    read = _read_yaml(Path(config), extra)
    if not isinstance(read, dict):
        raise CheckpointError(f"{config} must contain a dictionary, got {type(read).__name__}.")
    return dict(plain_copy(read))


def _read_yaml(path: Path, extra: str) -> Any:
    yaml = library("yaml", extra)

    class PlainLoader(yaml.SafeLoader):  # type: ignore[name-defined]
        """Loads plain values, and the tuples that simulators write."""

    def construct_tuple(loader: Any, node: Any) -> tuple[Any, ...]:
        return tuple(loader.construct_sequence(node, deep=True))

    PlainLoader.add_constructor("tag:yaml.org,2002:python/tuple", construct_tuple)
    try:
        return yaml.load(path.read_text(), Loader=PlainLoader)
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} cannot be read as plain YAML: {reason}") from error


def plain_copy(value: Any) -> Any:
    """A copy of nested settings as plain dictionaries and lists that are not shared between entries."""
    if isinstance(value, Mapping):
        return {key: plain_copy(item) for key, item in value.items()}
    return [plain_copy(item) for item in value] if isinstance(value, list) else value
