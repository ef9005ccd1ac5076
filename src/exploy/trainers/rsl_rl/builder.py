"""Reads the constructor arguments of rsl_rl classes from a checkpoint and its training configuration."""

import contextlib
import copy
import importlib
import inspect
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import torch

from exploy.errors import CheckpointError, PolicyError
from exploy.trainers.common.libraries import library

ObsShapes = Mapping[str, int | Sequence[int]]
Shapes = dict[str, tuple[int, ...]]
EXTRA = "rsl-rl"

_NOISE = {"init_std", "std_range", "learn_std", "std_type", "init_noise_std", "noise_std_type"}
_SIZES = {"num_actor_obs", "num_critic_obs", "num_student_obs", "num_teacher_obs"}
_FILLED_IN = {"self", "obs", "obs_groups", "obs_set", "output_dim", "num_actions", "cnns", *_SIZES}
_CNN_FILLED_IN = ("input_dim", "input_channels")


def as_shapes(obs_shapes: ObsShapes) -> Shapes:
    """Shapes of observations as tuples. A number is a width.

    Raises:
        PolicyError: If a shape is neither a width nor a sequence of sizes.
    """
    if not isinstance(obs_shapes, Mapping):
        raise PolicyError(f"obs_shapes must be a dictionary such as {{'policy': 48}}, got {obs_shapes!r}.")
    shapes: Shapes = {}
    for name, given in obs_shapes.items():
        sizes = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
        if not sizes or not all(isinstance(size, Integral) and size > 0 for size in sizes):
            raise PolicyError(
                f"obs_shapes[{name!r}] must be a width such as 48, or the sizes of an image such as (1, 64, 64), got "
                f"{given!r}."
            )
        shapes[name] = tuple(int(size) for size in sizes)
    return shapes


class Builder:
    """A checkpoint with its configuration, and a list of what is missing in them."""

    def __init__(self, path: str | Path, loaded: dict[str, Any], state: dict[str, Any], config: Any, shapes: Shapes):
        self.path = path
        self.loaded = loaded
        self.state = state
        self.config = config
        self.given = shapes
        self.missing: list[str] = []

    def section(self, name: str) -> dict[str, Any]:
        """A copy of a section of the configuration. A section that does not exist is added to `missing`."""
        found = self.config.get(name)
        if not isinstance(found, Mapping):
            self.missing.append(name)
            return {}
        return copy.deepcopy(dict(found))

    def require_keys(self) -> None:
        """Raise CheckpointError with everything that is missing, if anything is."""
        if self.missing:
            raise CheckpointError(
                f"{self.path} and its configuration do not define the policy. Missing: {', '.join(self.missing)}. "
                "No default values are assumed."
            )

    def class_of(self, section: dict[str, Any], where: str, classes: dict[str, type]) -> type | None:
        """Remove `class_name` from a section and return the library's class of that name."""
        name = section.pop("class_name", None)
        if name is None:
            self.missing.append(f"{where}.class_name")
            return None
        if isinstance(name, type) and name in classes.values():
            return name
        module, _, short = str(name).replace(":", ".").rpartition(".")
        if short not in classes or (module and module.split(".")[0] != "rsl_rl"):
            raise CheckpointError(
                f"{where}.class_name is {name!r}, but the installed rsl-rl-lib has {', '.join(classes) or 'none'}. "
                "Install the version that trained the policy. Export a custom class from the live runner or model."
            )
        return classes[short]

    def arguments(self, section: dict[str, Any], where: str, callee: Any, skip: Iterable[str] = ()) -> dict[str, Any]:
        """A section as constructor arguments. Arguments that affect actions are required, unknown ones rejected."""
        parameters = inspect.signature(callee).parameters
        names = [name for name, item in parameters.items() if item.kind is not inspect.Parameter.VAR_KEYWORD]
        skipped = {*_FILLED_IN, *skip}
        needed = [name for name in names if name not in skipped | _NOISE]
        self.missing += [f"{where}.{name}" for name in needed if name not in section]
        unknown = [name for name in section if name not in names]
        if unknown and len(names) == len(parameters):
            raise CheckpointError(
                f"{callee.__name__} of the installed rsl-rl-lib does not accept {where}.{f', {where}.'.join(unknown)}. "
                "Install the version that trained the policy."
            )
        return {name: value for name, value in section.items() if name in names and name not in skipped}

    def groups(self, name: str) -> tuple[str, ...]:
        """The observation groups of an observation set."""
        found = self.section("obs_groups").get(name) if "obs_groups" in self.config else None
        if not isinstance(found, list | tuple) or not found:
            self.missing.append(f"obs_groups.{name}")
            return ()
        return tuple(map(str, found))

    def shapes(self, groups: tuple[str, ...], images: set[str], width: int | None) -> Shapes:
        """The shape of each group. Shapes that are neither in the weights nor given are added to `missing`."""
        flat = [name for name in groups if name not in images]
        known = {flat[0]: (width,)} if len(flat) == 1 and width is not None else {}
        shapes: Shapes = {**known, **self.given}
        self.missing += [
            f"obs_shapes[{name!r}] ({'channels, height and width' if name in images else 'its width'})"
            for name in groups
            if name not in shapes
        ]
        return {name: shapes[name] for name in groups if name in shapes}

    def cnn_arguments(self, section: dict[str, Any], where: str, images: set[str]) -> None:
        """Add missing encoder settings to `missing`. There is one encoder for all images or one per image."""
        found = section.get(where.rpartition(".")[2])
        if isinstance(found, Mapping):
            by_group = found if found and all(isinstance(value, Mapping) for value in found.values()) else {"": found}
            self.missing += [
                f"{where}.{name}" for name in sorted(images) if "" not in by_group and name not in by_group
            ]
            for name, encoder in by_group.items():
                self.arguments(dict(encoder), f"{where}.{name}" if name else where, _cnn(), _CNN_FILLED_IN)

    def width(self, normalizer: str, rnn: str, network: str) -> int | None:
        """The width of the concatenated observations, or None if it cannot be read from the weights."""
        for key, axis in ((f"{normalizer}._mean", -1), (f"{rnn}.rnn.weight_ih_l0", 1)):
            if key in self.state:
                return int(self.state[key].shape[axis])
        first = self.state.get(f"{network}.0.weight")
        has_encoders = any(re.match(r"(actor_)?cnns\.", key) for key in self.state)
        return None if first is None or has_encoders else int(first.shape[1])

    def actions(self, network: str, heads: int) -> int:
        """The number of actions, from the last layer."""
        found = [re.fullmatch(rf"{network}\.(\d+)\.bias", key) for key in self.state]
        layers = [int(match[1]) for match in found if match]
        rows = self.state[f"{network}.{max(layers)}.bias"].shape[0] if layers else 0
        if rows == 0 or rows % heads:
            raise CheckpointError(
                f"{self.path} does not match the configuration: the last layer of `{network}` has {rows} values, but a "
                f"multiple of {heads} is expected."
            )
        return int(rows // heads)

    def made(self, make: Callable[[], torch.nn.Module], kind: str) -> torch.nn.Module:
        """Create an object of the library. Its printed output is suppressed."""
        try:
            with contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng(devices=[]):
                return make()
        except Exception as error:
            raise CheckpointError(
                f"rsl_rl cannot build {kind} from the configuration: {type(error).__name__}: {error}"
            ) from error


def library_classes(module: str, attribute: str) -> dict[str, type]:
    """The library's policy classes: models of version 4 and later, or policies of earlier versions."""
    found = inspect.getmembers(library(module, EXTRA), inspect.isclass)
    if attribute == "obs_groups":
        return {name: kind for name, kind in found if attribute in inspect.signature(kind).parameters}
    return {name: kind for name, kind in found if hasattr(kind, attribute)}


def distribution_classes() -> dict[str, type]:
    """The library's distribution classes."""
    module = library("rsl_rl.modules.distribution", EXTRA)
    found = inspect.getmembers(module, inspect.isclass)
    return {name: kind for name, kind in found if issubclass(kind, module.Distribution) and kind != module.Distribution}


def _cnn() -> Any:
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module("rsl_rl.networks").CNN
    return library("rsl_rl.modules", EXTRA).CNN
