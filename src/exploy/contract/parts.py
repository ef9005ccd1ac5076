"""The parts of the contract."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from exploy.contract.arrays import decode_array, digest

METADATA_KEY = "exploy.contract"
FORMAT_VERSION = "1.0"
STEP_COUNT = "ctx.step_count"
NO_DIGEST = "0" * 64

Limits = tuple[float | None, float | None]


class Kind:
    """Kinds of ports that the format itself gives a meaning; all others describe robot data and are free text."""

    STEP_COUNT = "step_count"
    MEMORY = "memory"
    OBSERVATIONS = "observations"
    ACTIONS = "actions"
    IS_INIT = "is_init"

    FILLED_BY_THE_CONTROLLER = (STEP_COUNT, MEMORY, IS_INIT)


@dataclass(frozen=True)
class Port:
    """A named tensor that goes into or comes out of the file.

    Args:
        name: Name of the port.
        dtype: Type of its elements, as numpy calls it.
        shape: Its sizes; a string stands for a size that is chosen when the file is loaded.
        kind: What it is; see Kind for those that have a meaning of their own.
        names: Names of the elements along the last dimension, such as those of joints.
        unit: Unit of the values.
        limits: The lowest and the highest value, for all elements, or one such pair for each along the last dimension;
            None where there is no bound.
        frame: The frame in which the values are expressed.
        gains: Lists with one number for each element, such as `stiffness` and `damping`.
        finite: False where values that are not finite belong to the port, such as those of a range sensor.
        unknown: Fields that this version does not know.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    kind: str | None = None
    names: tuple[str, ...] | None = None
    unit: str | None = None
    limits: Limits | tuple[Limits, ...] | None = None
    frame: str | None = None
    gains: Mapping[str, tuple[float, ...]] | None = None
    finite: bool = True
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def fixed_shape(self, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """The shape with sizes for those that are left open, by name; 1 where one is not given."""
        return tuple(size if isinstance(size, int) else (sizes or {}).get(size, 1) for size in self.shape)


@dataclass(frozen=True)
class Memory:
    """A value that the file gives out and takes again at the next call.

    `carried` ones were not registered: they cross from a policy step to its sub-steps. The value of
    one that is `written_by_observations` changes whenever observations are computed.
    """

    name: str
    input: str
    output: str
    initial: dict[str, Any]
    carried: bool = False
    written_by_observations: bool = False
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def initial_value(self) -> np.ndarray:
        """The value that this memory starts from."""
        return decode_array(self.initial)


@dataclass(frozen=True)
class Frozen:
    """A tensor of the environment that is stored in the file with the value that it had at export.

    Its name is the path that led to it. Where ports cover a part of it, `elements` are the positions of the rest in
    the flattened tensor. `declared` is the name under which the user has declared it to be a constant.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    elements: list[int] | None = None
    declared: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def changed_elements(self, now: np.ndarray) -> np.ndarray | None:
        """Flags for all that is frozen, where it has another value, shape or type now; else None."""
        frozen = slice(None) if self.elements is None else self.elements
        same_form = now.shape == self.shape and str(now.dtype) == self.dtype
        if same_form and digest(now if self.elements is None else now.reshape(-1)[self.elements]) == self.sha256:
            return None
        flags = np.zeros(math.prod(self.shape), dtype=bool)
        flags[frozen] = True
        return flags


@dataclass(frozen=True)
class ObservationTerm:
    """Consecutive elements of the observation that belong together: from `start` to before `stop`."""

    name: str
    start: int
    stop: int
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GitCommit:
    """The commit that the environment's code was at; `changed` if tracked files were different from it."""

    commit: str
    changed: bool
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Where a file comes from: who made it, when, from what."""

    versions: Mapping[str, str] = field(default_factory=dict)
    date: str | None = None
    model_source: Mapping[str, Any] = field(default_factory=dict)
    opset: int | None = None
    ir_version: int | None = None
    git: GitCommit | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GoldenTrace:
    """Some ticks from a reset on: what went in, and what the torch program gave.

    Each array has the ticks as its first dimension. Outputs that random numbers reach are not in it.
    """

    ticks: int
    inputs: Mapping[str, dict[str, Any]]
    outputs: Mapping[str, dict[str, Any]]
    tolerance: float
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def input_arrays(self) -> dict[str, np.ndarray]:
        """What goes in, by port, tick by tick."""
        return {name: decode_array(array) for name, array in self.inputs.items()}

    def output_arrays(self) -> dict[str, np.ndarray]:
        """What comes out, by port, tick by tick."""
        return {name: decode_array(array) for name, array in self.outputs.items()}
