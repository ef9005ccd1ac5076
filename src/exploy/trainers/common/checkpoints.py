"""Reads checkpoints without running code from them."""

import importlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exploy.errors import CheckpointError


def load_tensors(path: str | Path) -> dict[str, Any]:
    """The dictionary in a checkpoint that torch.save() wrote; see load_values().

    Raises:
        CheckpointError: If the file cannot be read or does not contain a dictionary.
    """
    loaded = load_values(path)
    if not isinstance(loaded, dict):
        raise CheckpointError(f"{path} must contain a dictionary, got {type(loaded).__name__}.")
    return loaded


def load_values(path: str | Path) -> Any:
    """The contents of a checkpoint that torch.save() wrote, on the CPU; only tensors and plain values are read.

    Raises:
        CheckpointError: If the file is missing, is not a checkpoint, or contains other objects.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"Checkpoint not found: {path}.")
    try:
        with torch.serialization.safe_globals(_numbers_of_numpy()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"{path} contains more than tensors and plain values, or is damaged. Other objects are not loaded, because "
            f"loading them would run code from the file ({reason})."
        ) from error
    except Exception as error:
        raise CheckpointError(
            f"{path} is not a checkpoint that torch can read: {type(error).__name__}: {error}"
        ) from error


def _numbers_of_numpy() -> list[Any]:
    """The types to allow for numpy scalars, which checkpoints often contain."""
    multiarray = importlib.import_module("numpy._core.multiarray" if hasattr(np, "_core") else "numpy.core.multiarray")
    kinds = {type(np.dtype(name)) for name in ("float32", "float64", "int32", "int64", "bool")}
    return [np.dtype, *kinds, multiarray.scalar, (multiarray.scalar, "numpy.core.multiarray.scalar")]


def entry(loaded: dict[str, Any], path: str | Path, *keys: str, library: str) -> Any:
    """The entry of a checkpoint under the first key that exists.

    Raises:
        CheckpointError: If none of the keys exists. The message lists the expected and the found keys.
    """
    for key in keys:
        if key in loaded:
            return loaded[key]
    present = ", ".join(map(str, list(loaded)[:12])) or "nothing"
    raise CheckpointError(
        f"{path} is not a checkpoint of {library}: looked for {' or '.join(map(repr, keys))}, found {present}."
    )


def load_into(module: torch.nn.Module, state: Any, path: str | Path, what: str) -> None:
    """Load a complete state dictionary into a module.

    Raises:
        CheckpointError: If keys are missing or unknown, or shapes differ.
    """
    try:
        missing, unknown = torch.nn.Module.load_state_dict(module, state, strict=False)
    except Exception as error:
        lines = "; ".join(line.strip() for line in str(error).splitlines()[1:4]) or str(error)
        raise CheckpointError(f"{path} does not match {what}: {lines}") from error
    if missing or unknown:
        parts = [
            f"{title} {', '.join(keys[:6])}" for title, keys in (("missing", missing), ("unknown", unknown)) if keys
        ]
        raise CheckpointError(f"{path} does not match {what}: {'; '.join(parts)}. Use the checkpoint of this network.")
