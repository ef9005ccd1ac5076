"""The parts of the contract."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from exploy.contract.arrays import NumberType, StoredArray, decode_array, digest
from exploy.contract.field_schema import ALL_DIFFERENT, NOT_EMPTY, REQUIRED, Count, Part, Size, keywords

METADATA_KEY = "exploy.contract"
FORMAT_VERSION = "1.0"
STEP_COUNT = "ctx.step_count"
NO_DIGEST = "0" * 64

Limits = tuple[float | None, float | None]
LimitsOfElements = Annotated[tuple[Limits, ...], NOT_EMPTY]


class PortKind:
    """Kinds of ports that the format itself gives a meaning; all others describe robot data and are free text."""

    STEP_COUNT = "step_count"
    MEMORY = "memory"
    OBSERVATIONS = "observations"
    ACTIONS = "actions"
    IS_INIT = "is_init"

    FILLED_BY_THE_CONTROLLER = (STEP_COUNT, MEMORY, IS_INIT)


@dataclass(frozen=True)
class Port(Part):
    """A named tensor that goes into or comes out of the file.

    Args:
        name: Name of the port.
        dtype: Type of its elements, as numpy calls it.
        shape: Its sizes; a string stands for a size that is chosen when the file is loaded.
        kind: What it is. step_count: the number of the tick, or what is left of it by the decimation; it does nothing
            but choose the path. memory: fed back. is_init: true at the first tick after a reset, set by the controller.
            observations, actions: of the policy. Others are free text.
        names: Names of the elements along the last dimension, such as those of joints.
        unit: Unit of the values.
        limits: The lowest and the highest value, for all elements, or one such pair for each along the last dimension;
            None, null in JSON, where there is no bound.
        frame: The frame in which the values are expressed.
        gains: A number for each element along the last dimension, by the name of the gain, such as `stiffness`.
        finite: False where values that are not finite belong to the port, such as those of a range sensor; true if left
            out.
        unknown: Fields that this version does not know.
    """

    name: str
    dtype: NumberType
    shape: tuple[Size | str, ...]
    kind: str | None = None
    names: Annotated[tuple[str, ...], ALL_DIFFERENT] | None = None
    unit: str | None = None
    limits: Limits | LimitsOfElements | None = None
    frame: str | None = None
    gains: Mapping[str, tuple[float, ...]] | None = None
    finite: bool = True
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def fixed_shape(self, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """The shape with sizes for those that are left open, by name; 1 where one is not given."""
        return tuple(size if isinstance(size, int) else (sizes or {}).get(size, 1) for size in self.shape)

    def check(self) -> None:
        """Names, limits of elements and gains are as many as the last dimension has elements.

        Raises:
            ValueError: If they are not.
        """
        last = self.shape[-1] if self.shape else None
        limits = self.limits if self.limits and isinstance(self.limits[0], tuple) else None
        for what, values in (("names", self.names), ("limits", limits), *(self.gains or {}).items()):
            if values is not None and len(values) != last:
                raise ValueError(f"{len(values)} {what} for a port of shape {list(self.shape)}")


@dataclass(frozen=True)
class StoredMemory(Part):
    """A value that the file gives out and takes again at the next call.

    Args:
        name: Name of the memory.
        input: The input that takes it.
        output: The output that gives it.
        initial: The value that it starts from.
        carried: True where it was not registered, but crosses from a policy step to its sub-steps.
        written_by_observations: True where computing observations changes it.
        unknown: Fields that this version does not know.
    """

    name: str
    input: str
    output: str
    initial: StoredArray
    carried: bool = field(default=False, metadata=REQUIRED)
    written_by_observations: bool = field(default=False, metadata=REQUIRED)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def initial_value(self) -> np.ndarray:
        """The value that this memory starts from."""
        return decode_array(self.initial)


@dataclass(frozen=True)
class Frozen(Part):
    """A tensor of the environment that is stored in the file with the value that it had at export.

    Args:
        name: The path that led to the tensor.
        dtype: Type of its elements, as numpy calls it.
        shape: Its sizes.
        sha256: Hash of the bytes of its elements, in row-major order.
        elements: Positions in the flattened tensor, where ports cover the others.
        declared: The name under which it was declared to be a constant.
        unknown: Fields that this version does not know.
    """

    name: str
    dtype: NumberType
    shape: tuple[Size, ...]
    sha256: str
    elements: list[Size] | None = None
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

    def check(self) -> None:
        """The positions of elements are within the tensor.

        Raises:
            ValueError: If they are not.
        """
        if self.elements and max(self.elements) >= math.prod(self.shape):
            raise ValueError("the positions of frozen elements are out of range")


@dataclass(frozen=True)
class ObservationTerm(Part):
    """Consecutive elements of the observation that belong together.

    Args:
        name: Name of the term.
        start: Position of its first element.
        stop: Position after its last element.
        unknown: Fields that this version does not know.
    """

    name: str
    start: Size
    stop: Size
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """A term does not end before it starts.

        Raises:
            ValueError: If it does.
        """
        if self.start > self.stop:
            raise ValueError(f"a term cannot go from {self.start} to {self.stop}")


@dataclass(frozen=True)
class GitCommit(Part):
    """The commit that the environment's code was at.

    Args:
        commit: Its hash.
        changed: True if tracked files were different from it.
        unknown: Fields that this version does not know.
    """

    commit: str
    changed: bool
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance(Part):
    """Where a file comes from: who made it, when, from what.

    Args:
        versions: Versions of everything that made the file.
        date: When it was made, in UTC.
        model_source: Where the policy comes from, as the user said.
        opset: Version of the ONNX operators.
        ir_version: Version of the ONNX format.
        git: The commit of the environment's code, and whether tracked files were changed.
        unknown: Fields that this version does not know.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    date: Annotated[str, keywords(format="date-time")] | None = None
    model_source: Mapping[str, Any] = field(default_factory=dict)
    opset: Count | None = None
    ir_version: Count | None = None
    git: GitCommit | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GoldenTrace(Part):
    """Some ticks from a reset on: what went in, and what the torch program gave.

    Each array has the ticks as its first dimension.

    Args:
        ticks: Number of ticks.
        inputs: What went in, by port.
        outputs: What came out, by port. Memories, and outputs that random numbers reach, are not among them.
        tolerance: How far outputs may be off: absolute, and relative to the largest element.
        unknown: Fields that this version does not know.
    """

    ticks: Count
    inputs: Mapping[str, StoredArray]
    outputs: Mapping[str, StoredArray]
    tolerance: float
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def input_arrays(self) -> dict[str, np.ndarray]:
        """What goes in, by port, tick by tick."""
        return {name: decode_array(array) for name, array in self.inputs.items()}

    def output_arrays(self) -> dict[str, np.ndarray]:
        """What comes out, by port, tick by tick."""
        return {name: decode_array(array) for name, array in self.outputs.items()}

    def check(self) -> None:
        """Every array has the ticks as its first dimension.

        Raises:
            ValueError: If one has not.
        """
        if any(array["shape"][:1] != [self.ticks] for array in (*self.inputs.values(), *self.outputs.values())):
            raise ValueError(f"an array of the trace does not have {self.ticks} ticks")
